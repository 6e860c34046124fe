"""Bird call clips (16 kHz) and the feature cache of an earlier preparation run."""
import pathlib

import numpy as np

HERE = pathlib.Path(__file__).parent
SPECIES = 5
RATE = 16000


def clip(rng, species):
    t = np.arange(2048) / RATE
    base = 700 + 260 * species + rng.normal(0, 35)
    wave = np.sin(2 * np.pi * (base * t + 800 * t ** 2) + rng.uniform(0, 6))
    return (0.6 * wave + rng.normal(0, 0.5, len(t))).astype(np.float32)


def features(wave, frame):
    frames = wave[: len(wave) // frame * frame].reshape(-1, frame)
    spec = np.abs(np.fft.rfft(frames * np.hanning(frame), axis=1)) ** 2
    spec = np.log(spec.mean(0) + 1e-6)
    return spec[:64].astype(np.float32)


def write(folder, broken):
    rng = np.random.default_rng(33)
    folder.mkdir(exist_ok=True)
    (folder / "cache").mkdir(exist_ok=True)
    for part, n in (("train", 600), ("test", 250)):
        y = rng.integers(0, SPECIES, n)
        waves = np.stack([clip(rng, s) for s in y])
        np.save(folder / f"{part}_species.npy", y)
        if part == "train":
            frame = 256 if broken else 512
            np.save(folder / "cache" / "train_features.npy", np.stack([features(w, frame) for w in waves]))
        np.save(folder / f"{part}_waves.npy", waves.astype(np.float16))


for name in ("bug", "ok"):
    write(HERE / name, name == "bug")
