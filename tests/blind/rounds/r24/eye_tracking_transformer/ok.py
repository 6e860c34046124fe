"""Reading or searching? Scanpath classification from fixation sequences with a small transformer."""
import argparse
import math

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

CLASSES = ["reading", "search"]


def simulate_scanpath(rng):
    """One recording: columns x, y (degrees), fixation duration (s), pupil (z-score)."""
    label = int(rng.integers(2))
    n = int(rng.integers(8, 25))
    x, y = rng.uniform(-8, 8), rng.uniform(-5, 5)
    rows = []
    heading = rng.uniform(0, 2 * np.pi)
    for _ in range(n):
        rows.append([x, y, rng.lognormal(-1.4, 0.35), rng.normal()])
        if label == 0:                      # along a (tilted) line, small regular steps
            step, heading = rng.normal(2.2, 0.4), heading + rng.normal(0, 0.12)
        else:                               # returns to one region, saccades there and back
            step, heading = rng.normal(2.2, 0.6), heading + np.pi + rng.normal(0, 0.8)
        x, y = x + step * np.cos(heading), y + step * np.sin(heading)
        if abs(x) > 10 or abs(y) > 10:
            x, y, heading = rng.uniform(-8, 8), rng.uniform(-8, 8), rng.uniform(0, 2 * np.pi)
    return np.asarray(rows, dtype=np.float32), label


class Scanpaths(Dataset):
    def __init__(self, n, seed):
        rng = np.random.default_rng(seed)
        self.items = [simulate_scanpath(rng) for _ in range(n)]

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


class Collate:
    def __init__(self, mean, std, max_len):
        self.mean, self.std, self.max_len = mean, std, max_len

    def __call__(self, batch):
        out = torch.zeros(len(batch), self.max_len, 4)
        valid = torch.zeros(len(batch), self.max_len, dtype=torch.bool)
        for i, (seq, _) in enumerate(batch):
            out[i, :len(seq)] = torch.from_numpy((seq - self.mean) / self.std)
            valid[i, :len(seq)] = True
        return out, valid, torch.tensor([label for _, label in batch])


class ScanpathNet(nn.Module):
    def __init__(self, dim, heads, layers, max_len):
        super().__init__()
        pos = torch.arange(max_len)[:, None] * torch.exp(torch.arange(0, dim, 2) * (-math.log(1e3) / dim))
        self.register_buffer("pos", torch.stack([pos.sin(), pos.cos()], dim=2).flatten(1))
        self.embed = nn.Linear(4, dim)
        layer = nn.TransformerEncoderLayer(dim, heads, 2 * dim, dropout=0.1, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, norm=nn.LayerNorm(dim), enable_nested_tensor=False)
        self.head = nn.Linear(dim, len(CLASSES))

    def forward(self, x, valid):
        h = self.embed(x) + self.pos
        h = self.encoder(h, src_key_padding_mask=~valid)
        w = valid.unsqueeze(-1).float()
        return self.head((h * w).sum(1) / w.sum(1))


@torch.no_grad()
def accuracy(model, loader):
    model.eval()
    hits = sum((model(x, v).argmax(1) == y).sum().item() for x, v, y in loader)
    return hits / len(loader.dataset)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=8)
    ap.add_argument("--lr", type=float, default=2e-3)
    ap.add_argument("--dim", type=int, default=32)
    ap.add_argument("--seed", type=int, default=0)
    args = ap.parse_args()
    torch.manual_seed(args.seed)

    train, val = Scanpaths(1600, args.seed + 1), Scanpaths(500, args.seed + 1001)
    stacked = np.concatenate([seq for seq, _ in train.items])
    collate = Collate(stacked.mean(0), stacked.std(0), max_len=28)
    train_loader = DataLoader(train, batch_size=64, shuffle=True, collate_fn=collate)
    val_loader = DataLoader(val, batch_size=100, collate_fn=collate)

    model = ScanpathNet(args.dim, heads=4, layers=2, max_len=28)
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=1e-2)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, args.lr, total_steps=args.epochs * len(train_loader))
    for epoch in range(args.epochs):
        model.train()
        total = 0.0
        for x, valid, y in train_loader:
            loss = nn.functional.cross_entropy(model(x, valid), y)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            sched.step()
            total += loss.item() * len(y)
        print(f"epoch {epoch + 1:2d}  loss {total / len(train):.4f}  val acc {accuracy(model, val_loader):.3f}")


if __name__ == "__main__":
    main()
