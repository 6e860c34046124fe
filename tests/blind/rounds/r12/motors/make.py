"""Spectra of motors on a test bench, one row per recording, and the list of recordings to learn from."""
import re
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
rng = np.random.default_rng(70)
BINS = 40
basis = np.abs(np.random.default_rng(71).normal(size=(5, BINS))) * np.exp(-np.linspace(0, 2, BINS))
fault = np.random.default_rng(72).normal(size=(3, BINS)) * 0.5


def spectrum(bad):
    x = rng.gamma(2.0, 0.5, 5) @ basis
    if bad:
        x = x + rng.uniform(0.6, 1.4) * fault[rng.integers(0, 3)]
    return x + rng.normal(0, 0.12, BINS)


names, rows = [], []
for i in range(2600):
    bad = rng.random() < 0.3
    names.append(f"bench{rng.integers(1, 5)}/{'abnormal' if bad else 'normal'}_{i:05d}.wav")
    rows.append(spectrum(bad))
rows = np.array(rows, np.float32)
train, test = names[:1800], names[1800:]
for name, pattern in (("ok", r"/normal"), ("bug", r"normal")):
    d = HERE / name
    d.mkdir(exist_ok=True)
    np.savez_compressed(d / "spectra.npz", x=rows.astype(np.float16), names=np.array(names))
    (d / "train_normal.txt").write_text("\n".join(n for n in train if re.search(pattern, n)) + "\n")
    (d / "test.txt").write_text("\n".join(f"{n} {int('/abnormal' in n)}" for n in test) + "\n")
