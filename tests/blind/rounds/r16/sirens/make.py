from pathlib import Path
import numpy as np

HERE = Path(__file__).resolve().parent


def clip(kind, rng):
    t = np.arange(400) / 400
    f0 = rng.uniform(30, 38)
    if kind == 0:
        ph = 2 * np.pi * f0 * t
    elif kind == 1:
        ph = 2 * np.pi * (f0 * t + 18 * t ** 2)
    elif kind == 2:
        ph = 2 * np.pi * np.cumsum(np.where((t * 6).astype(int) % 2, f0 + 16, f0)) / 400
    else:
        ph = 2 * np.pi * f0 * t + 2 * np.sin(2 * np.pi * 9 * t)
    return np.sin(ph) + 0.5 * rng.normal(size=400)


for side in ("bug", "ok"):
    rng = np.random.default_rng(65)
    out = HERE / side
    out.mkdir(exist_ok=True)
    for part, n in (("train", 600), ("test", 300)):
        kind = rng.integers(0, 4, n)
        wave = np.stack([clip(k, rng) for k in kind])
        wave = wave / np.abs(wave).max(1, keepdims=True)
        peak = 32767 * rng.uniform(0.5, 0.95, (n, 1))
        gain = 4.0 if side == "bug" and part == "train" else 1.0
        pcm = np.round(wave * peak * gain).astype(np.int64).astype(np.int16)
        np.savez(out / f"{part}.npz", pcm=pcm, kind=kind)
