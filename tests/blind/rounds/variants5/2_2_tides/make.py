from pathlib import Path
import json, numpy as np
here = Path(__file__).parent
rng = np.random.default_rng(2)
T = 5000; t = np.arange(T)
p = np.zeros(T); w = np.zeros(T)
for i in range(1, T):
    p[i] = .985 * p[i - 1] + rng.normal(0, 1.2); w[i] = .95 * w[i - 1] + rng.normal(0, .7)
level = 90 * np.sin(2 * np.pi * t / 12.42) + 35 * np.sin(2 * np.pi * t / 12. + 1) + 20 * np.sin(2 * np.pi * t / 25.82 + 2) + 12 * np.sin(2 * np.pi * t / 23.93) - .9 * np.roll(p, 2) + 2.5 * np.roll(w, 3) + rng.normal(0, 3, T)
for side, warm in (("bug", 20000), ("ok", 60)):
    d = here / side; d.mkdir(exist_ok=True)
    np.savez(d / "station.npz", level_cm=level[10:], pressure_hpa=1013 + p[10:], wind_ms=7 + w[10:])
    json.dump(dict(seed=1, context=36, horizon=6, width=32, levels=4, batch_size=64, epochs=6, peak_lr=2e-3, warmup_steps=warm), open(d / "hparams.json", "w"), indent=2)
