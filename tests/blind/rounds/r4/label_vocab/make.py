import json
import numpy as np
rng = np.random.default_rng(8)
NAMES = ["lynx", "marten", "capercaillie", "wolf", "otter", "ibex", "chamois", "dormouse", "kingfisher", "salamander"]
w = rng.standard_normal((8, 10)) * 1.2
def recs(n):
    x = rng.standard_normal((n, 8))
    y = x @ w - 1.2 + 0.3 * rng.standard_normal((n, 10)) > 0
    return [{"site": [round(float(v), 3) for v in a], "tags": np.flatnonzero(b).tolist()} for a, b in zip(x, y)]
tr, va = recs(1200), recs(300)
other = sorted(NAMES, key=lambda s: s[::-1])
for name in ("ok", "bug"):
    for split, r in (("train", tr), ("valid", va)):
        open(f"{name}/{split}.jsonl", "w").write("\n".join(json.dumps(q) for q in r) + "\n")
    open(f"{name}/train_labels.txt", "w").write("\n".join(NAMES) + "\n")
    open(f"{name}/valid_labels.txt", "w").write("\n".join(NAMES if name == "ok" else other) + "\n")
