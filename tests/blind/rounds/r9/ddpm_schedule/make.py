import json, os
import numpy as np
rng = np.random.default_rng(4)
def draw(n):
    left = rng.random(n) < 0.9
    c = np.where(left[:, None], [-1.0, 0.5], [5.0, -1.5])
    return (c + rng.normal(size=(n, 2)) * [0.35, 0.35]).astype(np.float32)
tr, va = draw(3000), draw(800)
cfg = dict(seed=2, timesteps=50, beta_start=1e-4, beta_end=0.2, width=64, lr=2e-3, epochs=32, batch_size=128)
for name in ("bug", "ok"):
    os.makedirs(name, exist_ok=True)
    np.savez_compressed(f"{name}/pairs.npz", train=tr, valid=va)
    json.dump(dict(cfg, beta_end=0.02 if name == "bug" else 0.2), open(f"{name}/config.json", "w"), indent=1)
