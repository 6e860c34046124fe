import json

base = dict(seed=6, lr=5e-3, epochs=25, micro_batch=32)
json.dump(dict(base, accumulate=128), open("bug/config.json", "w"), indent=1)
json.dump(dict(base, accumulate=4), open("ok/config.json", "w"), indent=1)
