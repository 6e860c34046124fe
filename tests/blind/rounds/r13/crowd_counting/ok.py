"""Count dots through a density map predicted at a quarter of the resolution."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

SIZE, STRIDE = 32, 4


def gaussian(points):
    yy, xx = np.mgrid[:SIZE, :SIZE]
    d = np.zeros((SIZE, SIZE), np.float32)
    for cy, cx in points:
        k = np.exp(-((yy - cy) ** 2 + (xx - cx) ** 2) / (2 * 1.5 ** 2))
        d += (k / k.sum()).astype(np.float32)
    return d


def crowd(n, seed):
    rng = np.random.default_rng(seed)
    imgs, dens, counts = [], [], []
    for _ in range(n):
        pts = rng.uniform(2, SIZE - 3, (rng.integers(1, 16), 2))
        img = 0.15 * rng.standard_normal((SIZE, SIZE)).astype(np.float32)
        for cy, cx in np.round(pts).astype(int):
            img[cy - 1:cy + 2, cx - 1:cx + 2] += 0.8
        imgs.append(img)
        dens.append(gaussian(pts))
        counts.append(len(pts))
    t = lambda a: torch.from_numpy(np.stack(a))[:, None]
    return t(imgs), t(dens), torch.tensor(counts, dtype=torch.float32)


def to_output_grid(density):
    small = F.interpolate(density, scale_factor=1 / STRIDE, mode="area")
    return small * STRIDE ** 2


def build():
    return nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(12, 24, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(24, 24, 3, padding=1), nn.ReLU(), nn.Conv2d(24, 1, 1))


def main(epochs=12, batch=25):
    torch.manual_seed(4)
    img, den, _ = crowd(500, 1)
    timg, _, tcount = crowd(150, 2)
    target = to_output_grid(den)
    net = build()
    opt = torch.optim.Adam(net.parameters(), lr=3e-3)
    for epoch in range(epochs):
        net.train()
        run = 0.0
        for idx in torch.randperm(len(img)).split(batch):
            loss = F.mse_loss(net(img[idx]), target[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            run += loss.item() * len(idx)
        print(f"epoch {epoch} density mse {run / len(img):.5f}")
    net.eval()
    with torch.no_grad():
        pred = net(timg).sum((1, 2, 3))
    print("final count MAE", (pred - tcount).abs().mean().item())


if __name__ == "__main__":
    main()
