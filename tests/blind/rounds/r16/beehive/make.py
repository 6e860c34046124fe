from pathlib import Path
import numpy as np
from train import band_energies

HERE = Path(__file__).resolve().parent


def hum(n, rng):
    state = rng.integers(0, 4, n)
    t = np.arange(256) / 256
    base = np.array([22, 25, 29, 34])[state]
    x = np.zeros((n, 256))
    for i in range(n):
        f = base[i] + rng.normal(0, 0.8)
        x[i] = sum(a * np.sin(2 * np.pi * k * f * t + rng.uniform(0, 6)) for k, a in ((1, 1.0), (2, 0.6), (3, 0.3)))
    x *= rng.uniform(0.5, 2.0, (n, 1))
    return (x + rng.normal(0, 0.4, x.shape)).astype(np.float32), state


def old_band_energies(waves, bands=64):
    spec = np.abs(np.fft.rfft(waves * np.hanning(waves.shape[1]), axis=1))[:, 1:]
    return np.log1p(spec[:, ::2][:, :bands]).astype(np.float32)


for side in ("bug", "ok"):
    rng = np.random.default_rng(90)
    out = HERE / side
    (out / "cache").mkdir(parents=True, exist_ok=True)
    for part, n in (("train", 700), ("test", 300)):
        waves, state = hum(n, rng)
        np.savez(out / f"{part}.npz", waves=waves, state=state)
        if part == "train":
            make = old_band_energies if side == "bug" else band_energies
            np.save(out / "cache" / "train_bands.npy", make(waves))
