import json, os
import numpy as np
rng = np.random.default_rng(0)
pts = rng.random((512, 2))
cfg = dict(seed=1, width=32, lr=6e-3, epochs=75, batch=64, w_border=100.0)
for name, fmt in (("bug", "%.0f"), ("ok", "%.5f")):
    os.makedirs(name, exist_ok=True)
    np.savetxt(f"{name}/collocation.csv", pts, delimiter=",", header="x,y", comments="", fmt=fmt)
    json.dump(cfg, open(f"{name}/config.json", "w"), indent=1)
