import json
import os
import numpy as np
rng = np.random.default_rng(30)
N, C, T, FS = 400, 3, 128, 128
t = np.arange(T) / FS
y = rng.integers(0, 2, N)
x = rng.standard_normal((N, C, T)) * 6
x += 30 * np.sin(2 * np.pi * 0.7 * t + rng.uniform(0, 6, (N, C, 1)))
x += 14 * np.sin(2 * np.pi * 50 * t + rng.uniform(0, 6, (N, 1, 1)))
amp = np.where(y == 1, 9.0, 4.5)[:, None, None] * rng.uniform(0.7, 1.3, (N, 1, 1))
x += amp * np.array([0.5, 1.0, 0.9])[None, :, None] * np.sin(2 * np.pi * rng.uniform(9, 11, (N, 1, 1)) * t + rng.uniform(0, 6, (N, 1, 1)))
q = np.round(x).clip(-127, 127).astype(np.int8)
for d, fs in (("ok", 128), ("bug", 512)):
    os.makedirs(d, exist_ok=True)
    np.savez_compressed(f"{d}/epochs.npz", eeg=q, eyes_closed=y.astype(np.int8))
    json.dump({"sampling_rate_hz": fs, "band_hz": [7.0, 14.0], "channels": ["Pz", "O1", "O2"], "reference": "Cz",
               "lr": 0.003, "epochs": 40, "batch_size": 32, "seed": 5}, open(f"{d}/config.json", "w"), indent=2)
