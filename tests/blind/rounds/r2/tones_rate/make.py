import numpy as np

rng = np.random.default_rng(13)
NOTES = [160.0, 230.0, 320.0, 450.0, 640.0]


def record(n, rate, length):
    y = rng.integers(0, 5, n)
    t = np.arange(length) / rate
    f = np.array(NOTES)[y] * rng.uniform(0.94, 1.06, n)
    w = 0.5 * np.sin(2 * np.pi * f[:, None] * t + rng.uniform(0, 6, (n, 1))) + rng.normal(0, 0.3, (n, length))
    return np.clip(128 + 80 * w, 0, 255).astype(np.uint8), y


train = record(400, 2000, 400)
for side in ("bug", "ok"):
    rng = np.random.default_rng(14)
    val = record(160, 4000 if side == "bug" else 2000, 400)
    np.savez(f"{side}/train.npz", audio=train[0], note=train[1])
    np.savez(f"{side}/val.npz", audio=val[0], note=val[1])
