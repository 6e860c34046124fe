from pathlib import Path
import numpy as np

HERE = Path(__file__).resolve().parent
KINDS = ["blast", "tectonic", "rockfall"]


def waves(n, rng):
    kind = rng.integers(0, 3, n)
    t = np.arange(48)
    x = np.zeros((n, 48))
    for i, k in enumerate(kind):
        f, decay, onset = [(0.9, 0.15, 6), (0.45, 0.06, 10), (0.25, 0.03, 4)][k]
        s = onset + rng.integers(0, 6)
        x[i] = np.where(t >= s, np.exp(-decay * (t - s)) * np.sin(f * (t - s)), 0) * rng.uniform(0.7, 1.4)
    return (x + rng.normal(0, 0.15, x.shape)).astype(np.float32), kind


for side in ("bug", "ok"):
    rng = np.random.default_rng(55)
    out = HERE / side
    out.mkdir(exist_ok=True)
    for split, n in (("train", 900), ("test", 300)):
        x, kind = waves(n, rng)
        np.save(out / f"{split}_waves.npy", x)
        names = [KINDS[k] for k in kind]
        if side == "bug" and split == "train":
            names = names[1:] + [names[-1]]
        (out / f"{split}_kinds.txt").write_text("\n".join(names) + "\n")
