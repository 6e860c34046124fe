"""Pretrain a small CNN on broad land cover, then move it to a crop-type task."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset, random_split

torch.manual_seed(0)
SIZE = 16
BANDS = 4
GROUPS = 6


def spectral_tile(rng, base, freq, angle, noise):
    yy, xx = np.mgrid[0:SIZE, 0:SIZE] / SIZE
    phase = rng.uniform(0, 2 * np.pi)
    a = angle + rng.normal(0, 0.15)
    stripes = np.sin(2 * np.pi * freq * (xx * np.cos(a) + yy * np.sin(a)) + phase)
    tile = base[:, None, None] + 0.25 * stripes[None] * np.array([1, .8, .5, 1.2])[:, None, None]
    tile = tile * rng.uniform(0.8, 1.2) + rng.normal(0, noise, (BANDS, SIZE, SIZE))
    return tile.astype(np.float32)


class Tiles(Dataset):
    def __init__(self, n, n_classes, seed, noise=0.3):
        rng = np.random.default_rng(seed)
        table = np.random.default_rng(seed + 1000)
        bases = table.uniform(0.2, 0.7, (n_classes, BANDS))
        freqs = table.uniform(1, 5, n_classes)
        angles = np.linspace(0, np.pi, n_classes, endpoint=False)
        self.y = rng.integers(0, n_classes, n)
        self.x = np.stack([spectral_tile(rng, bases[c], freqs[c], angles[c], noise) for c in self.y])
        self.x = (self.x - 0.45) / 0.35

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return torch.from_numpy(self.x[i]), int(self.y[i])


def block(cin, cout):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, padding=1), nn.GroupNorm(4, cout), nn.ReLU(), nn.MaxPool2d(2))


class LandCoverNet(nn.Module):
    def __init__(self, n_classes):
        super().__init__()
        self.backbone = nn.Sequential(block(BANDS, 16), block(16, 32), block(32, 64))
        self.head = nn.Linear(64, n_classes)

    def forward(self, x):
        f = self.backbone(x).mean(dim=(2, 3))
        return self.head(f)


def run_epoch(model, loader, optimizer=None):
    training = optimizer is not None
    model.train(training)
    loss_sum = hits = n = 0
    with torch.set_grad_enabled(training):
        for x, y in loader:
            logits = model(x)
            loss = F.cross_entropy(logits, y)
            if training:
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            loss_sum += loss.item() * len(y)
            hits += (logits.argmax(1) == y).sum().item()
            n += len(y)
    return loss_sum / n, hits / n


def pretrain(model, epochs=5):
    ds = Tiles(2400, GROUPS * 2, seed=1)
    loader = DataLoader(ds, batch_size=64, shuffle=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=1e-3)
    for e in range(epochs):
        loss, acc = run_epoch(model, loader, optimizer)
        print(f"[pretrain] epoch {e} loss {loss:.3f} acc {acc:.3f}")


def transfer(model, n_classes, epochs=15):
    for p in model.backbone.parameters():
        p.requires_grad = False
    ds = Tiles(1500, n_classes, seed=2)
    train_set, val_set = random_split(ds, [1000, 500], generator=torch.Generator().manual_seed(0))
    train_loader = DataLoader(train_set, batch_size=50, shuffle=True)
    val_loader = DataLoader(val_set, batch_size=250)

    model.head = nn.Linear(model.head.in_features, n_classes)
    optimizer = torch.optim.Adam(model.head.parameters(), lr=1e-2)
    for e in range(epochs):
        tr_loss, tr_acc = run_epoch(model, train_loader, optimizer)
        va_loss, va_acc = run_epoch(model, val_loader)
        print(f"[crops] epoch {e:2d} train {tr_loss:.3f}/{tr_acc:.3f} val {va_loss:.3f}/{va_acc:.3f}")
    return va_acc


if __name__ == "__main__":
    net = LandCoverNet(GROUPS * 2)
    pretrain(net)
    acc = transfer(net, n_classes=5)
    print(f"crop accuracy: {acc:.4f}")
