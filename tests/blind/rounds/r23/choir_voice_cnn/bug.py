import math
import time

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

CFG = {
    "seed": 2024,
    "n_clips": 1100,
    "n_val": 500,
    "bands": 32,
    "frames": 32,
    "epochs": 24,
    "batch_size": 60,
    "lr": 1e-3,
    "time_mask": 8,
    "freq_mask": 6,
}
SECTIONS = ["soprano", "alto", "tenor", "bass"]
MIDI = [(65, 2.2), (60, 2.2), (54, 2.2), (48, 2.2)]
FORMANTS = [(800, 1150, 2900), (800, 1150, 2800), (650, 1080, 2650), (600, 1040, 2250)]


def sing(rng, section, bands, frames):
    """Log band energies of one sung phrase: harmonics under the section's formants, vibrato, room noise."""
    centers = 60 * 2 ** (np.arange(bands) / bands * 6)
    note = rng.normal(*MIDI[section])
    t = np.arange(frames)
    cuts = np.sort(rng.choice(np.arange(6, frames - 6), 2, replace=False))
    steps = np.searchsorted(cuts, t, side="right")
    melody = note + np.concatenate([[0], rng.normal(0, 2.0, 2)])[steps]
    melody = melody + rng.uniform(0.1, 0.5) * np.sin(2 * math.pi * t * rng.uniform(0.1, 0.2) + rng.uniform(0, 6))
    f0 = 440 * 2 ** ((melody - 69) / 12)
    spec = np.zeros((bands, frames))
    shift = rng.normal(1.0, 0.08)
    for h in range(1, 11):
        f = f0 * h
        env = sum(np.exp(-((f - fm * shift) / 350) ** 2) for fm in FORMANTS[section]) + 0.1
        spec += env / h ** 0.7 * np.exp(-(np.log2(centers[:, None] / f[None]) / 0.12) ** 2)
    spec *= np.where(np.isin(t, cuts), 0.3, 1.0) * np.exp(rng.normal(0, 0.3))
    spec += np.abs(rng.normal(0, 0.08, spec.shape)) + 0.05
    return np.log(spec)


class ChoirClips(Dataset):
    """Clips are standardized with the statistics given (those of the training clips)."""

    def __init__(self, x, y, mean, std, augment=False):
        self.x = (x - mean) / std
        self.y = y
        self.augment = augment

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        clip = self.x[i]
        if self.augment:
            clip = self.mask(clip)
        return clip[None], self.y[i]

    def mask(self, clip):
        bands, frames = clip.shape
        for _ in range(2):
            w = int(torch.randint(0, CFG["time_mask"] + 1, ()))
            a = int(torch.randint(0, frames - w + 1, ()))
            clip[:, a:a + w] = 0.0
            w = int(torch.randint(0, CFG["freq_mask"] + 1, ()))
            a = int(torch.randint(0, bands - w + 1, ()))
            clip[a:a + w] = 0.0
        return clip


def block(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU(), nn.MaxPool2d(2))


class VoiceNet(nn.Module):
    def __init__(self, n_out):
        super().__init__()
        self.features = nn.Sequential(block(1, 8), block(8, 16), block(16, 32))
        self.head = nn.Sequential(nn.Flatten(), nn.Dropout(0.3), nn.Linear(32 * 4, n_out))

    def forward(self, x):
        h = self.features(x)
        return self.head(h.mean(-1))


def accuracy(net, loader):
    net.eval()
    hits = n = 0
    with torch.no_grad():
        for x, y in loader:
            hits += (net(x).argmax(1) == y).sum().item()
            n += len(y)
    return hits / n


if __name__ == "__main__":
    rng = np.random.default_rng(CFG["seed"])
    torch.manual_seed(CFG["seed"])
    y = rng.integers(4, size=CFG["n_clips"])
    x = np.stack([sing(rng, s, CFG["bands"], CFG["frames"]) for s in y]).astype(np.float32)
    x, y = torch.from_numpy(x), torch.from_numpy(y)
    n_train = CFG["n_clips"] - CFG["n_val"]
    mean, std = x[:n_train].mean(), x[:n_train].std()
    train = ChoirClips(x[:n_train], y[:n_train], mean, std, augment=True)
    val = ChoirClips(x[n_train:], y[n_train:], mean, std)
    train_loader = DataLoader(train, CFG["batch_size"], shuffle=True, drop_last=True)
    val_loader = DataLoader(val, 100)

    net = VoiceNet(len(SECTIONS))
    opt = torch.optim.AdamW(net.parameters(), lr=CFG["lr"], weight_decay=1e-3)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, CFG["lr"] * 3, total_steps=CFG["epochs"] * len(train_loader))
    criterion = nn.CrossEntropyLoss()
    start = time.time()
    for epoch in range(CFG["epochs"]):
        net.train()
        total = 0.0
        for xb, yb in train_loader:
            loss = criterion(net(xb), yb)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            sched.step()
            total += loss.item()
        if epoch % 2:
            print(f"[{time.time() - start:5.1f}s] epoch {epoch + 1} loss {total / len(train_loader):.3f} val acc {accuracy(net, val_loader):.3f}")
