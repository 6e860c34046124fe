import random
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import Dataset, DataLoader


def scene(rng, size=32):
    yy, xx = np.mgrid[:size, :size]
    img = 0.25 * rng.standard_normal((size, size)) + 0.15 * np.sin(xx / rng.uniform(2, 6) + rng.uniform(0, 6))
    mask = np.zeros((size, size), np.float32)
    for _ in range(rng.integers(1, 4)):
        cy, cx, a, b = rng.uniform(4, 28), rng.uniform(4, 28), rng.uniform(2, 6), rng.uniform(2, 6)
        inside = ((yy - cy) / a) ** 2 + ((xx - cx) / b) ** 2 < 1
        img[inside] += rng.uniform(0.5, 0.9)
        mask[inside] = 1
    return img.astype(np.float32), mask


def hflip(t, p=0.5):
    return t.flip(-1) if random.random() < p else t


def vflip(t, p=0.5):
    return t.flip(-2) if random.random() < p else t


class Cells(Dataset):
    def __init__(self, n, seed, augment):
        rng = np.random.default_rng(seed)
        pairs = [scene(rng) for _ in range(n)]
        self.x = torch.from_numpy(np.stack([p[0] for p in pairs]))[:, None]
        self.y = torch.from_numpy(np.stack([p[1] for p in pairs]))[:, None]
        self.augment = augment

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        x, y = self.x[i], self.y[i]
        if self.augment:
            both = vflip(hflip(torch.cat([x, y])))
            x, y = both[:1], both[1:]
        return x, y


class TinyUNet(nn.Module):
    def __init__(self, c=8):
        super().__init__()
        self.d1 = nn.Sequential(nn.Conv2d(1, c, 3, padding=1), nn.ReLU(), nn.Conv2d(c, c, 3, padding=1), nn.ReLU())
        self.d2 = nn.Sequential(nn.Conv2d(c, 2 * c, 3, padding=1), nn.ReLU(), nn.Conv2d(2 * c, c, 3, padding=1), nn.ReLU())
        self.out = nn.Sequential(nn.Conv2d(2 * c, c, 3, padding=1), nn.ReLU(), nn.Conv2d(c, 1, 1))

    def forward(self, x):
        a = self.d1(x)
        b = self.d2(F.max_pool2d(a, 2))
        return self.out(torch.cat([a, F.interpolate(b, scale_factor=2.0)], 1))


def iou(model, loader):
    model.eval()
    inter = union = 0.0
    with torch.no_grad():
        for x, y in loader:
            p = model(x) > 0
            inter += (p & (y > 0.5)).sum().item()
            union += (p | (y > 0.5)).sum().item()
    return inter / max(union, 1)


def main():
    random.seed(1)
    torch.manual_seed(1)
    train = DataLoader(Cells(300, 10, True), batch_size=20, shuffle=True)
    test = DataLoader(Cells(100, 11, False), batch_size=50)
    model = TinyUNet()
    opt = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for epoch in range(8):
        model.train()
        tot = 0.0
        for x, y in train:
            loss = F.binary_cross_entropy_with_logits(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            tot += loss.item()
        print(f"epoch {epoch}: loss {tot / len(train):.4f} iou {iou(model, test):.4f}")
    print("final test IoU", iou(model, test))


if __name__ == "__main__":
    main()
