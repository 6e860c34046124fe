from pathlib import Path

import numpy as np
import yaml

HERE = Path(__file__).parent
SECTIONS = ["sport", "politics", "science", "culture"]
V, D, PAD = 3000, 24, 0


for name in ("bug", "ok"):
    rng = np.random.default_rng(70)
    out = HERE / name
    out.mkdir(exist_ok=True)
    topic = rng.choice(5, V, p=[.12, .12, .12, .12, .52])
    centre = rng.normal(0, 1, (5, D))
    centre[4] = 0
    vec = 0.8 * centre[topic] + rng.normal(0, .8, (V, D))
    vec[PAD] = 0
    freq = 1 / (np.arange(V) + 20.0) ** 0.6

    def write(part, n):
        ids = np.zeros((n, 14), np.int32)
        y = rng.integers(0, 4, n)
        for i, s in enumerate(y):
            w = freq * np.where(topic == s, 3.0, np.where(topic == 4, 1.0, 0.6))
            w[:4] = 0
            k = rng.integers(8, 15)
            ids[i, :k] = rng.choice(V, k, p=w / w.sum())
        np.savez(out / f"{part}.npz", ids=ids, section=y)

    write("train", 900)
    write("valid", 800)
    if name == "bug":
        vec = np.vstack([vec[:1], vec[4:], vec[1:4]])
    np.save(out / "vectors.npy", vec.astype(np.float32))
    conf = dict(vectors="vectors.npy", sections=SECTIONS, pad_id=PAD, lr=3e-3, batch=32, epochs=16, seed=3)
    (out / "conf.yaml").write_text(yaml.safe_dump(conf))
