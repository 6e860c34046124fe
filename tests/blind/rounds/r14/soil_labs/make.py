"""Soil samples: spectra in the order of measurement, lab results in a second file."""
import pathlib

import numpy as np

HERE = pathlib.Path(__file__).parent


def write(folder, broken):
    rng = np.random.default_rng(7)
    folder.mkdir(exist_ok=True)
    basis = rng.normal(size=(3, 20))
    for part, n in (("train", 900), ("test", 300)):
        latent = rng.normal(size=(n, 3))
        spec = latent @ basis + 0.3 * rng.normal(size=(n, 20))
        label = latent.argmax(1)
        ids = [f"S{int(i)}" for i in rng.permutation(np.arange(1, n + 1)) + (0 if part == "train" else 5000)]
        with open(folder / f"{part}_spectra.tsv", "w") as f:
            for i, row in zip(ids, spec):
                f.write(i + "\t" + "\t".join(f"{v:.4f}" for v in row) + "\n")
        order = sorted(range(n), key=lambda j: ids[j]) if broken and part == "train" else range(n)
        with open(folder / f"{part}_lab.tsv", "w") as f:
            for j in order:
                f.write(f"{ids[j]}\t{('sand', 'silt', 'clay')[label[j]]}\n")


for name in ("bug", "ok"):
    write(HERE / name, name == "bug")
