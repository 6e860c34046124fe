import os

import numpy as np

CLASSES = 6


def flows(n, rng):
    y = rng.integers(0, CLASSES, n)
    bytes_in = rng.lognormal(np.array([9.0, 10.2, 11.0, 11.7, 12.4, 13.1])[y], 0.28)
    bytes_out = rng.lognormal(np.array([8.2, 11.4, 9.6, 12.4, 10.5, 11.9])[y], 0.28)
    packets = rng.poisson(np.clip((bytes_in + bytes_out) / 9000, 4, None) * rng.uniform(0.3, 2.2, n))
    duration = rng.gamma(2.0, 600.0, n)
    return y, bytes_in, bytes_out, packets, duration


for side in ("bug", "ok"):
    os.makedirs(side, exist_ok=True)
    rng = np.random.default_rng(14)
    size = np.int16 if side == "bug" else np.int32
    kind = np.dtype([("bytes_in", size), ("bytes_out", size), ("packets", np.int16), ("duration_ms", np.float32), ("app", np.uint8)])
    for name, n in (("flows_week1", 4500), ("flows_week2", 1200)):
        y, bi, bo, pk, du = flows(n, rng)
        rec = np.zeros(n, kind)
        rec["bytes_in"], rec["bytes_out"] = bi.astype(np.int64).astype(size), bo.astype(np.int64).astype(size)
        rec["packets"], rec["duration_ms"], rec["app"] = pk, du, y
        np.save(f"{side}/{name}.npy", rec)
