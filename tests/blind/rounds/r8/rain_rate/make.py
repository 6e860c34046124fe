import json, os
import numpy as np
here = os.path.dirname(os.path.abspath(__file__))
rng = np.random.default_rng(15)
def make(n, T=12, H=4):
    base = rng.normal(0, 1, (n, 1)); t = np.arange(T)[None]
    dbz = 25 + 8*base + rng.normal(0, .7, (n, 1))*(t-6) + 3*np.sin(t*rng.uniform(.3, 1, (n, 1))+rng.uniform(0, 6, (n, 1)))
    x = np.stack([dbz + 2*h*rng.normal(0, .4, (n, 1)) + rng.normal(0, 1.5, (n, T)) for h in range(H)], 1)
    y = .1*(dbz[:, -1]) + .25*(dbz[:, -1]-dbz[:, -4]) + .03*(dbz[:, -1]-25)*base[:, 0] + rng.normal(0, .2, n)
    return x.astype(np.float16), y.astype(np.float32)
tr, va = make(1200), make(400)
for d, w in (("ok", 20), ("bug", 20000)):
    os.makedirs(f"{here}/{d}", exist_ok=True)
    np.savez_compressed(f"{here}/{d}/radar_train.npz", dbz=tr[0], rate=tr[1])
    np.savez_compressed(f"{here}/{d}/radar_valid.npz", dbz=va[0], rate=va[1])
    json.dump({"seed": 7, "epochs": 15, "batch_size": 64, "optim": {"lr": 0.003, "weight_decay": 0.01, "warmup_steps": w}},
              open(f"{here}/{d}/config.json", "w"), indent=1)
