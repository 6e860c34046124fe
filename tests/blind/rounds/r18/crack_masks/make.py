"""pavement tiles with crack masks; the training tiles are stored after the offline flips"""
import json
import numpy as np

r = np.random.default_rng(52)
S = 32


def tile():
    img = 0.55 + 0.05 * r.normal(size=(S, S)) + 0.06 * np.sin(np.arange(S) / r.uniform(3, 8) + r.uniform(0, 6))[:, None]
    mask = np.zeros((S, S), bool)
    for _ in range(r.integers(1, 3)):
        p, a = r.uniform(2, S - 2, 2), r.uniform(0, 6.28)
        for _ in range(r.integers(25, 60)):
            a += r.normal(0, 0.25)
            p = p + 0.7 * np.array([np.sin(a), np.cos(a)])
            i, j = p.astype(int)
            if 0 <= i < S and 0 <= j < S:
                mask[i, j] = mask[min(i + 1, S - 1), j] = True
    img[mask] -= r.uniform(0.12, 0.25)
    for _ in range(r.integers(0, 5)):
        i, j = r.integers(0, S - 4, 2)
        img[i:i + 3, j:j + 3] -= 0.15
    return np.clip(img * 255, 0, 255).astype(np.uint8), mask.astype(np.uint8)


def stack(n):
    a = [tile() for _ in range(n)]
    return np.stack([x for x, _ in a]), np.stack([m for _, m in a])


img, mask = stack(420)
timg, tmask = stack(150)
flip = r.random(len(img)) < 0.5
fimg = np.where(flip[:, None, None], img[:, :, ::-1], img)
fmask = np.where(flip[:, None, None], mask[:, :, ::-1], mask)
for side in ("bug", "ok"):
    np.savez_compressed(f"{side}/train_cache.npz", image=fimg, mask=mask if side == "bug" else fmask)
    np.savez_compressed(f"{side}/test.npz", image=timg, mask=tmask)
    json.dump({"cache": "train_cache.npz", "augment": ["hflip 0.5"], "tiles": len(img), "positive_weight": 3.0}, open(f"{side}/meta.json", "w"))
