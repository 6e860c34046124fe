import itertools
import numpy as np

VISEMES = np.array([[1.0, 0.1], [0.6, 0.9], [0.9, 0.6], [0.35, 0.35], [0.7, 0.05]])
WORDS = list(itertools.product((0, 1, 2), (3, 4), (0, 1, 2)))[:12]


def clip(word, rng, fps=50):
    T = int(rng.integers(18, 29))
    knots = np.array([[0.6, 0.05], *VISEMES[list(word)], [0.6, 0.05]])
    knots = knots + rng.normal(0, 0.05, knots.shape)
    pos = np.sort(np.array([0, 0.22, 0.48, 0.76, 1.0]) + np.array([0, *rng.normal(0, 0.03, 3), 0]))
    t = np.linspace(0, 1, T)
    width, opening = np.interp(t, pos, knots[:, 0]), np.interp(t, pos, knots[:, 1])
    ang = np.linspace(0, 2 * np.pi, 9)[:-1]
    pts = np.stack([width[:, None] * np.cos(ang), opening[:, None] * np.sin(ang)], -1) * rng.uniform(0.85, 1.15)
    pts += rng.normal(0, 0.05, pts.shape) + rng.normal(0, 0.1, (1, 1, 2))
    return pts.reshape(T, -1).astype(np.float32)


def split(n, seed, native):
    rng = np.random.default_rng(seed)
    x = np.zeros((n, 28, 16), dtype=np.float16)
    length, y = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    for i in range(n):
        y[i] = rng.integers(len(WORDS))
        c = clip(WORDS[y[i]], rng)
        x[i, :len(c)] = c
        length[i] = len(c) if native else len(c) // 2
    return {"landmarks": x, "n_frames": length, "word": y}


for side, native in (("bug", False), ("ok", True)):
    np.savez_compressed(f"{side}/train.npz", **split(900, 1, native))
    np.savez_compressed(f"{side}/val.npz", **split(300, 2, native))
