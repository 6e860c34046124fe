import os

import numpy as np

rng = np.random.default_rng(12)
FS, L = 100, 300
CLASSES = ["walk", "jog", "stairs_up", "stairs_down", "tremor"]
BANDS = [(10.5, 12.0), (13.0, 14.5), (15.5, 17.0), (18.0, 19.5), (20.5, 22.0)]


def clip(c):
    t = np.arange(L) / FS
    f = rng.uniform(*BANDS[c])
    x = rng.uniform(0.5, 1.1) * np.sin(2 * np.pi * f * t + rng.uniform(0, 6.3))
    x += rng.uniform(0.3, 0.8) * np.sin(2 * np.pi * rng.uniform(8.5, 23.5) * t + rng.uniform(0, 6.3))
    for _ in range(3):
        x += rng.uniform(1, 3) * np.sin(2 * np.pi * rng.uniform(0.2, 4.5) * t + rng.uniform(0, 6.3))
    x += rng.uniform(1, 2) * np.sin(2 * np.pi * rng.uniform(35, 48) * t + rng.uniform(0, 6.3))
    return (x + rng.normal(0, 0.7, L)).astype(np.float16)


y = rng.integers(0, 5, 1300)
x = np.stack([clip(c) for c in y])
for side in ("bug", "ok"):
    os.makedirs(side, exist_ok=True)
    np.savez_compressed(f"{side}/clips.npz", x=x, y=y.astype(np.int8))
    rate = 100 if side == "ok" else 250
    with open(f"{side}/config.toml", "w") as f:
        f.write(f'[sensor]\nname = "wrist_imu"\naxis = "z"\nsample_rate_hz = {rate}\nclasses = {CLASSES!r}\n\n'
                "[filter]\nlow_hz = 8.0\nhigh_hz = 24.0\n\n[training]\nepochs = 16\nbatch_size = 32\nlr = 0.002\nseed = 6\n")
