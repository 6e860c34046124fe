import json, numpy as np
mel = np.arange(16)
ok = {"mean": [round(-4 + 0.1 * i, 3) for i in mel], "std": [1.3] * 16}
bug = {"mean": [round(900 - 30 * float(i), 3) for i in mel], "std": [4000.0 + 50 * int(i) for i in mel]}
json.dump(bug, open("bug/feature_stats.json", "w")); json.dump(ok, open("ok/feature_stats.json", "w"))
