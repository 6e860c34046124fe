from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
N = 512


def record(kind, rng):
    t = np.arange(N) / N
    shaft = rng.normal(9, .3)
    x = rng.uniform(1.2, 2.4) * np.sin(2 * np.pi * shaft * t + rng.uniform(0, 6)) + 0.5 * np.sin(2 * np.pi * 2 * shaft * t + rng.uniform(0, 6))
    if kind:
        rate = [0, 5.4, 3.6, 2.4][kind] * shaft
        phase = (t * rate + rng.random()) % 1.0
        x = x + rng.uniform(.12, .22) * np.exp(-phase * 6) * np.sin(2 * np.pi * [0, 95, 88, 103][kind] * t)
    return x + rng.normal(0, .09, N)


for name in ("bug", "ok"):
    rng = np.random.default_rng(90)
    out = HERE / name
    out.mkdir(exist_ok=True)
    for part, n in (("bench_train", 2000), ("bench_valid", 800)):
        y = rng.integers(0, 4, n)
        x = np.stack([record(k, rng) for k in y])
        step = 1e-4 if name == "ok" else 2.5e-5
        counts = np.round(x / step).astype(np.int64).astype(np.int16)
        np.savez(out / f"{part}.npz", counts=counts, volts_per_count=np.float64(step), fault=y)
