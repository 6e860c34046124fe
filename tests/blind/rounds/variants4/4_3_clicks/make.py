from pathlib import Path

import numpy as np

HERE = Path(__file__).parent


def collect(n, rng, narrow):
    time, page, offset, bot = [], [], [0], []
    for _ in range(n):
        b = int(rng.random() < 0.45)
        k = int(rng.integers(8, 22))
        base = rng.uniform(2, 12)
        gaps = base * np.exp(rng.normal(0, 0.35 if b else 1.0, k))
        p = np.linspace(1.3, 0.7, 30) if b else np.ones(30)
        time.append(rng.uniform(1.70e9, 1.71e9) + np.cumsum(gaps))
        page.append(rng.choice(30, k, p=p / p.sum()))
        offset.append(offset[-1] + k)
        bot.append(b)
    time = np.concatenate(time).round(2)
    if narrow:
        time = time.astype(np.float32).astype(np.float64)
    return dict(time=time, page=np.concatenate(page), offset=np.array(offset), bot=np.array(bot))


for name in ("bug", "ok"):
    rng = np.random.default_rng(3)
    out = HERE / name
    out.mkdir(exist_ok=True)
    np.savez(out / "train.npz", **collect(3000, rng, name == "bug"))
    np.savez(out / "valid.npz", **collect(1000, rng, name == "bug"))
