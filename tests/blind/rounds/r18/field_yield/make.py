import json
import numpy as np

r = np.random.default_rng(9)
n = 2600
ndvi_peak = r.normal(0.68, 0.08, n)
weeks = np.arange(16)
ndvi = ndvi_peak[:, None] * np.exp(-((weeks - r.normal(8.5, 1.2, n)[:, None]) / 4.5) ** 2) + r.normal(0, 0.02, (n, 16))
rain = r.gamma(1.6, 9, (n, 16))
heat = np.clip(r.normal(18, 3, (n, 16)) + 5 * np.sin(weeks / 15 * np.pi), 0, None)
clay, nfert = r.beta(3, 4, n), r.normal(130, 35, n)
y = 2 + 9 * (ndvi[:, 4:12].mean(1)) + 0.9 * np.tanh(rain[:, 5:10].sum(1) / 40 - 1.6) + 0.012 * np.minimum(nfert, 150) - 0.12 * np.clip(heat[:, 7:10] - 25, 0, None).sum(1) + 1.2 * clay + r.normal(0, 0.25, n)
for side in ("bug", "ok"):
    np.savez(f"{side}/fields.npz", ndvi=ndvi.astype("f4"), rain=rain.astype("f4"), heat=heat.astype("f4"), soil=np.stack([clay, nfert], 1).astype("f4"), yield_t_ha=y.astype("f4"))
    np.save(f"{side}/test_rows.npy", np.arange(2000, n))
    cfg = {"model": {"channels": 24, "hidden": 48}, "optim": {"lr": 2e-3, "weight_decay": 1e-4, "warmup_steps": 60000 if side == "bug" else 50, "grad_clip": 1.0},
           "train": {"epochs": 20, "batch_size": 64, "seed": 13}}
    json.dump(cfg, open(f"{side}/config.json", "w"), indent=1)
