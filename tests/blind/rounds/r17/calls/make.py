import json
import numpy as np

CALLS = ["upsweep", "downsweep", "moan", "pulse_train", "warble"]
SR, N = 2000, 2048


def call(k, rng):
    t = np.arange(N) / SR
    d = rng.uniform(.45, .75)
    t0 = rng.uniform(.05, 1.0 - d)
    u = np.clip((t - t0) / d, 0, 1)
    env = np.where((t >= t0) & (t <= t0 + d), np.sin(np.pi * u), 0.0)
    lo, hi = rng.uniform(70, 110), rng.uniform(220, 320)
    if k == "upsweep":
        f = lo + (hi - lo) * u ** 1.5
    elif k == "downsweep":
        f = hi - (hi - lo) * u
    elif k == "moan":
        f = np.full(N, rng.uniform(120, 220))
    elif k == "pulse_train":
        f = np.full(N, rng.uniform(150, 260))
        env = env * (np.sin(2 * np.pi * rng.uniform(9, 13) * t) > .4)
    else:
        f = rng.uniform(150, 220) + 45 * np.sin(2 * np.pi * rng.uniform(4, 6) * t)
    w = env * np.sin(2 * np.pi * np.cumsum(f) / SR) * rng.uniform(.25, .6)
    sea = np.convolve(rng.standard_normal(N + 16), np.ones(17) / 17, "valid")
    return (w + .12 * sea + .01 * rng.standard_normal(N)).astype(np.float32)


for side in ("bug", "ok"):
    rng = np.random.default_rng(52)
    for part, n in (("train", 1000), ("test", 400)):
        y = rng.integers(0, len(CALLS), n)
        w = np.stack([call(CALLS[k], rng) for k in y])
        np.savez(f"{side}/{part}.npz", wave=(w * 32767).clip(-32768, 32767).astype(np.int16), call=y)
    with open(f"{side}/config.json", "w") as f:
        json.dump({"calls": CALLS, "sample_rate": SR, "n_fft": 256, "hop": 64, "epochs": 8, "batch_size": 40, "lr": 0.002,
                   "augment": {"gain_db": 3.0, "noise_std": 2.0 if side == "bug" else 0.02}}, f, indent=2)
