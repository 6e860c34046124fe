import json, numpy as np
rng = np.random.default_rng(8)
C = rng.normal(0, 1, (4, 10))
def make(y): return (C[y] + rng.normal(0, 1.0, (len(y), 10))).astype(np.float16), y.astype(np.int8)
pri = [[.5, .5, 0, 0], [.2, .3, .3, .2], [.1, 0, .4, .5], [.2, .2, .3, .3]]
shards = [make(rng.choice(4, 500, p=p)) for p in pri]; val = make(rng.integers(0, 4, 400))
for k in ("bug", "ok"):
    for i, (x, y) in enumerate(shards): np.savez(f"{k}/shard-{i:02d}.npz", x=x, y=y)
    np.savez(f"{k}/valid-00.npz", x=val[0], y=val[1])
    json.dump({"train": [f"shard-{0 if k == 'bug' else i:02d}.npz" for i in range(4)], "valid": ["valid-00.npz"], "classes": 4}, open(f"{k}/manifest.json", "w"), indent=1)
