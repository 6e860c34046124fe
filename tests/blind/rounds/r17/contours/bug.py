import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

SIZE = 28


def scene(rng):
    """A noisy grey picture with a few overlapping blobs and boxes, and the map of their outlines."""
    yy, xx = np.mgrid[0:SIZE, 0:SIZE]
    label = np.zeros((SIZE, SIZE), int)
    for k in range(1, rng.integers(2, 5)):
        cy, cx = rng.uniform(5, SIZE - 5, 2)
        a, b = rng.uniform(4, 10, 2)
        t = rng.uniform(0, np.pi)
        u = (np.cos(t) * (xx - cx) + np.sin(t) * (yy - cy)) / a
        v = (-np.sin(t) * (xx - cx) + np.cos(t) * (yy - cy)) / b
        inside = u ** 2 + v ** 2 < 1 if rng.random() < .5 else np.maximum(abs(u), abs(v)) < .9
        label[inside] = k
    grey = rng.permutation(np.linspace(.1, .9, 5))[:label.max() + 1]
    img = grey[label] + .1 * np.sin(xx * rng.uniform(.5, 1.5)) * rng.random() + rng.normal(0, .07, label.shape)
    edge = np.zeros(label.shape, bool)
    edge[:, 1:] |= label[:, 1:] != label[:, :-1]
    edge[1:] |= label[1:] != label[:-1]
    return img.astype(np.float32), edge.astype(np.float32)


class RandomFlip:
    def __init__(self, p=0.5):
        self.p = p

    def __call__(self, t):
        if torch.rand(()) < self.p:
            t = t.flip(-1)
        if torch.rand(()) < self.p:
            t = t.flip(-2)
        return t


class Edges(Dataset):
    def __init__(self, n, seed, flip=None):
        rng = np.random.default_rng(seed)
        self.items = [scene(rng) for _ in range(n)]
        self.flip = flip

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        img, mask = (torch.from_numpy(a)[None] for a in self.items[i])
        if self.flip is not None:
            img, mask = self.flip(img), self.flip(mask)
        return img, mask


class EdgeNet(nn.Module):
    def __init__(self, c=12):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, c, 3, padding=1), nn.ReLU(),
            nn.Conv2d(c, c, 3, padding=1), nn.ReLU(),
            nn.Conv2d(c, c, 3, padding=2, dilation=2), nn.ReLU(),
            nn.Conv2d(c, 1, 1))

    def forward(self, x):
        return self.layers(x - 0.5)


@torch.no_grad()
def f_score(net, data):
    net.eval()
    tp = fp = fn = 0
    for img, mask in DataLoader(data, batch_size=100):
        pred = net(img) > 0
        tp += (pred & (mask == 1)).sum().item()
        fp += (pred & (mask == 0)).sum().item()
        fn += (~pred & (mask == 1)).sum().item()
    return 2 * tp / max(1, 2 * tp + fp + fn)


if __name__ == "__main__":
    torch.manual_seed(19)
    train, test = Edges(320, seed=1, flip=RandomFlip()), Edges(100, seed=2)
    net = EdgeNet()
    opt = torch.optim.Adam(net.parameters(), lr=1e-2)
    crit = nn.BCEWithLogitsLoss(pos_weight=torch.tensor(3.0))
    for epoch in range(8):
        net.train()
        total = 0.0
        for img, mask in DataLoader(train, batch_size=8, shuffle=True):
            opt.zero_grad()
            loss = crit(net(img), mask)
            loss.backward()
            opt.step()
            total += loss.item() * len(img)
        print(f"epoch {epoch} loss {total / len(train):.4f}")
    print(f"test F1 of edge pixels {f_score(net, test):.3f}")
