import os
import sys

import numpy as np
import torch
import torch.nn as nn

H, W = 24, 36


def eyes(rng, n):
    yy, xx = np.mgrid[:H, :W]
    yaw, pitch = rng.uniform(-25, 25, n), rng.uniform(-15, 15, n)
    imgs = np.zeros((n, H, W), dtype=np.float32)
    for i in range(n):
        cy, cx = H / 2 + rng.normal(0, 0.5), W / 2 + rng.normal(0, 0.5)
        sclera = ((xx - cx) / 15) ** 2 + ((yy - cy) / rng.uniform(7, 9)) ** 2 < 1
        img = np.full((H, W), rng.uniform(0.35, 0.7))
        img[sclera] = rng.uniform(0.75, 0.95)
        ix, iy = cx + 9 * np.sin(np.radians(yaw[i])) * 1.6, cy - 8 * np.sin(np.radians(pitch[i])) * 1.6
        iris = ((xx - ix) ** 2 + (yy - iy) ** 2 < rng.uniform(3.4, 4.4) ** 2) & sclera
        img[iris] = rng.uniform(0.2, 0.5)
        img[((xx - ix) ** 2 + (yy - iy) ** 2 < 2.2) & sclera] = 0.05
        gy, gx = rng.integers(4, H - 4), rng.integers(6, W - 6)
        img[gy:gy + 2, gx:gx + 2] = 1.0
        img = img * (1 + rng.normal(0, 0.15) * (xx - W / 2) / W) + rng.normal(0, 0.05, img.shape)
        imgs[i] = img
    return imgs, np.stack([yaw, pitch], 1).astype(np.float32)


def backbone():
    return nn.Sequential(nn.Conv2d(1, 12, 5, stride=2, padding=2), nn.ReLU(),
                         nn.Conv2d(12, 24, 3, stride=2, padding=1), nn.ReLU(),
                         nn.Flatten(), nn.Linear(24 * 6 * 9, 32), nn.ReLU())


def pretrain():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    x, y = eyes(np.random.default_rng(500), 6000)
    x, y = (torch.from_numpy(x).unsqueeze(1) - 0.6) / 0.25, torch.from_numpy(y) / 12
    body, head = backbone(), nn.Linear(32, 2)
    opt = torch.optim.Adam(list(body.parameters()) + list(head.parameters()), lr=1e-3)
    for _ in range(6):
        for idx in torch.randperm(len(x)).split(64):
            loss = (head(body(x[idx])) - y[idx]).pow(2).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
    return body.state_dict()


def write(dest, mode):
    os.makedirs(os.path.join(dest, "data"), exist_ok=True)
    os.makedirs(os.path.join(dest, "weights"), exist_ok=True)
    for name, seed, n in (("calibration", 71, 300), ("test", 72, 500)):
        x, y = eyes(np.random.default_rng(seed), n)
        np.savez_compressed(os.path.join(dest, "data", f"{name}.npz"), image=(np.clip(x, 0, 1) * 255).astype(np.uint8), gaze=y)
    state = pretrain()
    prefix = "module.encoder." if mode == "bug" else "backbone."
    torch.save({"state_dict": {prefix + k: v for k, v in state.items()}, "epoch": 6},
               os.path.join(dest, "weights", "eyenet.pt"))


if __name__ == "__main__":
    if len(sys.argv) == 3:
        write(sys.argv[1], sys.argv[2])
    else:
        here = os.path.dirname(os.path.abspath(__file__))
        for mode in ("bug", "ok"):
            write(os.path.join(here, mode), mode)
