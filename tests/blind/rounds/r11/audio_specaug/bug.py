"""Multi-label sound tagging on log-mel style patches, with time and frequency masking."""
import random
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

MELS, FRAMES, TAGS = 32, 64, 6


@dataclass
class Config:
    n_train: int = 1000
    n_val: int = 300
    n_test: int = 500
    epochs: int = 22
    batch: int = 32
    lr: float = 2e-3
    time_masks: int = 2
    time_width: int = 10
    freq_width: int = 5
    seed: int = 21


def synth(n, rng):
    """Tags: four tone patterns in bands, a sweep up and a sweep down."""
    specs = rng.normal(0, 0.6, (n, MELS, FRAMES))
    tags = (rng.random((n, TAGS)) < 0.3).astype(np.float32)
    t = np.arange(FRAMES)
    for i in range(n):
        for k in range(4):
            if tags[i, k]:
                row = 3 + 7 * k + rng.integers(0, 4)
                period = rng.integers(6, 10)
                specs[i, row] += 0.9 * (np.sin(2 * np.pi * t / period + rng.random() * 6) > 0)
        for k, sign in ((4, 1), (5, -1)):
            if tags[i, k]:
                start, length = rng.integers(0, FRAMES - 24), 24
                rows = (MELS // 2 + sign * (np.arange(length) - length / 2) * 0.9).astype(int).clip(0, MELS - 1)
                specs[i, rows, start + np.arange(length)] += 1.6
    return specs.astype(np.float32), tags


class Clips(Dataset):
    def __init__(self, specs, tags, cfg=None):
        self.specs = torch.from_numpy(specs)
        self.tags = torch.from_numpy(tags)
        self.cfg = cfg

    def __len__(self):
        return len(self.tags)

    def augment(self, spec):
        c = self.cfg
        for _ in range(c.time_masks):
            w = random.randint(0, c.time_width)
            s = random.randint(0, FRAMES - w)
            spec[:, s:s + w] = 0.0
        w = random.randint(0, c.freq_width)
        s = random.randint(0, MELS - w)
        spec[s:s + w] = 0.0
        return spec

    def __getitem__(self, i):
        spec = self.specs[i]
        if self.cfg is not None:
            spec = self.augment(spec)
        return spec.unsqueeze(0), self.tags[i]


def build():
    def conv(a, b):
        return nn.Sequential(nn.Conv2d(a, b, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU())
    return nn.Sequential(conv(1, 12), conv(12, 16), conv(16, 24), nn.AdaptiveMaxPool2d((4, 1)), nn.Flatten(),
                         nn.Dropout(0.1), nn.Linear(96, TAGS))


def average_precision(score, truth):
    order = np.argsort(-score)
    t = truth[order]
    return float((np.cumsum(t) / np.arange(1, len(t) + 1) * t).sum() / t.sum())


@torch.no_grad()
def mean_ap(model, loader):
    model.eval()
    s, t = zip(*[(model(x).numpy(), y.numpy()) for x, y in loader])
    s, t = np.concatenate(s), np.concatenate(t)
    model.train()
    return float(np.mean([average_precision(s[:, k], t[:, k]) for k in range(TAGS)]))


def run(cfg):
    random.seed(cfg.seed)
    torch.manual_seed(cfg.seed)
    rng = np.random.default_rng(cfg.seed)
    train = DataLoader(Clips(*synth(cfg.n_train, rng), cfg), batch_size=cfg.batch, shuffle=True, drop_last=True)
    val = DataLoader(Clips(*synth(cfg.n_val, rng)), batch_size=100)
    test = DataLoader(Clips(*synth(cfg.n_test, rng)), batch_size=100)
    model = build()
    opt = torch.optim.AdamW(model.parameters(), lr=cfg.lr, weight_decay=1e-3)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, cfg.epochs)
    loss_fn = nn.BCEWithLogitsLoss()
    for epoch in range(cfg.epochs):
        losses = []
        for x, y in train:
            loss = loss_fn(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            losses.append(loss.item())
        sched.step()
        if epoch % 3 == 0 or epoch == cfg.epochs - 1:
            print(f"epoch {epoch:2d} loss {np.mean(losses):.4f} val mAP {mean_ap(model, val):.4f}")
    print(f"test mAP {mean_ap(model, test):.4f}")


if __name__ == "__main__":
    run(Config())
