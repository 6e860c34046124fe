import json, os
import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
rng = np.random.default_rng(55)
WORDS = {"go": (300, 600), "stop": (600, 300), "left": (600, 1200), "right": (1200, 600), "up": (300, 1200), "down": (1200, 300)}


def clip(word, sr):
    a, b = (f * rng.uniform(0.9, 1.1) for f in WORDS[word])
    t = np.arange(sr) / sr
    split = rng.uniform(0.4, 0.6)
    f = np.where(t < split, a, b)
    ph = 2 * np.pi * np.cumsum(f) / sr
    w = np.sin(ph) + 0.5 * np.sin(2 * ph) * rng.uniform(0.5, 1.5)
    w *= np.minimum(1, 12 * np.minimum(t, 1 - t))
    w = rng.uniform(0.3, 0.9) * w + 0.5 * rng.normal(size=sr) * np.sqrt(sr / 8000)
    return np.clip(w / 3 * 32767, -32768, 32767).astype(np.int16)


def part(n):
    rows = []
    for i in range(n):
        word = list(WORDS)[rng.integers(len(WORDS))]
        sr = 16000 if rng.random() < 0.75 else 8000
        rows.append((word, sr, clip(word, sr)))
    return rows


sets = {"train": part(360), "dev": part(80), "test": part(150)}
for name in ("ok", "bug"):
    d = os.path.join(HERE, name)
    os.makedirs(d, exist_ok=True)
    for p, rows in sets.items():
        pos, man = 0, []
        for i, (word, sr, w) in enumerate(rows):
            said = 8000 if name == "bug" and p != "test" else sr
            man.append({"id": f"{p}-{i:04d}", "word": word, "start": pos, "samples": len(w), "sample_rate": said})
            pos += len(w)
        np.concatenate([w for _, _, w in rows]).tofile(os.path.join(d, p + ".pcm"))
        with open(os.path.join(d, p + ".jsonl"), "w") as f:
            f.writelines(json.dumps(m) + "\n" for m in man)
