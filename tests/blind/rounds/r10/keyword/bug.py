"""Keyword spotting on log-mel patches (8 commands), small CNN."""
import argparse

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

MELS, FRAMES = 40, 60


def keyword_bank(rng, n_words):
    bank = []
    for _ in range(n_words):
        segs = rng.integers(3, 5)
        bank.append(rng.uniform(4, 36, size=(segs, 2)))
    return bank


def synth(rng, formants):
    """One utterance: two formant tracks, random speed, onset, loudness and noise."""
    length = int(rng.integers(30, 50))
    onset = int(rng.integers(0, FRAMES - length))
    anchors = np.linspace(0, length - 1, len(formants))
    t = np.arange(length)
    speaker = rng.normal(0, 1.2)
    x = np.zeros((MELS, FRAMES))
    m = np.arange(MELS)[:, None]
    for k in range(2):
        track = np.interp(t, anchors, formants[:, k]) + speaker + rng.normal(0, 0.8)
        x[:, onset:onset + length] += np.exp(-0.5 * ((m - track[None, :]) / 1.6) ** 2)
    x = x * rng.uniform(0.7, 1.4) + rng.normal(0, 0.6, size=x.shape)
    return x.astype(np.float32)


def build(rng, bank, n):
    y = rng.integers(0, len(bank), size=n)
    x = np.stack([synth(rng, bank[c]) for c in y])
    return x, y


class KeywordSet(Dataset):
    def __init__(self, feats, labels, augment=False, seed=0):
        self.feats = torch.from_numpy(feats)
        self.labels = torch.from_numpy(labels).long()
        self.augment = augment
        self.rng = np.random.default_rng(seed)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        x = self.feats[i]
        if self.augment:
            x = self.spec_mask(x)
        return x.unsqueeze(0), self.labels[i]

    def spec_mask(self, x):
        w = int(self.rng.integers(4, 16))
        t = int(self.rng.integers(0, FRAMES - w))
        x[:, t:t + w] = 0.0
        h = int(self.rng.integers(3, 10))
        f = int(self.rng.integers(0, MELS - h))
        x[f:f + h, :] = 0.0
        return x


class KwsNet(nn.Module):
    def __init__(self, n_words, ch=10):
        super().__init__()
        self.c1 = nn.Conv2d(1, ch, 5, stride=2, padding=2)
        self.b1 = nn.BatchNorm2d(ch)
        self.c2 = nn.Conv2d(ch, 2 * ch, 3, padding=1)
        self.b2 = nn.BatchNorm2d(2 * ch)
        self.drop = nn.Dropout(0.2)
        self.fc = nn.Linear(2 * ch * 10 * 5, n_words)

    def forward(self, x):
        x = F.relu(self.b1(self.c1(x)))
        x = F.max_pool2d(F.relu(self.b2(self.c2(x))), (2, 6))
        return self.fc(self.drop(x.flatten(1)))


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    loss, hit, n = 0.0, 0, 0
    for x, y in loader:
        out = model(x)
        loss += F.cross_entropy(out, y, reduction="sum").item()
        hit += (out.argmax(1) == y).sum().item()
        n += len(y)
    return loss / n, hit / n


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=14)
    ap.add_argument("--batch-size", type=int, default=32)
    ap.add_argument("--lr", type=float, default=1e-3)
    ap.add_argument("--words", type=int, default=8)
    args = ap.parse_args()

    torch.set_num_threads(1)
    torch.manual_seed(3)
    rng = np.random.default_rng(3)
    bank = keyword_bank(rng, args.words)
    xtr, ytr = build(rng, bank, 600)
    xva, yva = build(rng, bank, 300)
    mean, std = xtr.mean(), xtr.std()
    xtr, xva = (xtr - mean) / std, (xva - mean) / std

    train_loader = DataLoader(KeywordSet(xtr, ytr, augment=True, seed=1),
                              batch_size=args.batch_size, shuffle=True)
    val_loader = DataLoader(KeywordSet(xva, yva), batch_size=100)

    model = KwsNet(args.words)
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=1e-3)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=args.epochs)
    for epoch in range(args.epochs):
        model.train()
        total, n = 0.0, 0
        for x, y in train_loader:
            opt.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            opt.step()
            total += loss.item() * len(y)
            n += len(y)
        sched.step()
        vl, va = evaluate(model, val_loader)
        print(f"epoch {epoch:2d}  train loss {total / n:.4f}  val loss {vl:.4f}  val acc {va:.4f}")


if __name__ == "__main__":
    main()
