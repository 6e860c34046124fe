import os
import numpy as np
S = 16
def faces(n, seed):
    rng = np.random.default_rng(seed)
    c = rng.uniform(6.5, 9.5, (n, 2)); w = rng.uniform(2.5, 4, n); th = rng.uniform(-0.4, 0.4, n)
    rel = np.stack([np.stack([0 * w, 0 * w], 1), np.stack([w, -w * .8], 1), np.stack([-w, -w * .8], 1), np.stack([0 * w, w], 1)], 1)
    R = np.stack([np.stack([np.cos(th), -np.sin(th)], 1), np.stack([np.sin(th), np.cos(th)], 1)], 1)
    kp = np.einsum("nij,nkj->nki", R, rel) + c[:, None]
    yy, xx = np.mgrid[:S, :S]
    img = np.zeros((n, S, S))
    for k, s in enumerate((0.6, 1.0, 1.0, 1.6)):
        img += (0.5 + 0.12 * k) * np.exp(-((xx - kp[:, k, 0, None, None]) ** 2 + (yy - kp[:, k, 1, None, None]) ** 2) / s)
    img = np.clip((img + rng.normal(0, .03, img.shape)) / 1.1, 0, 1)
    hidden = rng.random((n, 4)) < 0.3
    return (np.round(img * 15) * 17).astype(np.uint8), kp, hidden
for name in ("bug", "ok"):
    os.makedirs(name, exist_ok=True)
    for split, n, seed in (("train", 560, 0), ("valid", 150, 1)):
        img, kp, hidden = faces(n, seed)
        v = np.where(hidden, 0, 2)
        xyv = np.concatenate([np.where(hidden[..., None], 0, kp), v[..., None]], -1).astype(np.float16)
        if name == "bug" and split == "train":
            xyv[..., 2] = 2
        np.savez_compressed(f"{name}/{split}.npz", images=img, keypoints=xyv.reshape(n, -1))
