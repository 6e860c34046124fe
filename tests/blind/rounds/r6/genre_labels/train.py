"""Genre classification on 20 mean MFCCs, annotations collected from two people."""
import csv
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import ConcatDataset, DataLoader, TensorDataset

GENRES = ["folk", "jazz", "metal", "opera", "reggae", "techno"]


@dataclass
class GenreConfig:
    folder: Path
    hidden: int = 48
    dropout: float = 0.2
    epochs: int = 14
    batch_size: int = 32
    lr: float = 2e-3
    seed: int = 19


def read_part(path):
    with open(path, newline="") as f:
        reader = csv.reader(f)
        next(reader)
        rows = [[float(v) for v in r] for r in reader]
    a = np.array(rows, np.float32)
    return TensorDataset(torch.from_numpy(a[:, :-1]), torch.from_numpy(a[:, -1].astype(np.int64)))


class GenreNet(nn.Module):
    def __init__(self, n_in, cfg):
        super().__init__()
        self.register_buffer("mean", torch.zeros(n_in))
        self.register_buffer("std", torch.ones(n_in))
        self.net = nn.Sequential(nn.Linear(n_in, cfg.hidden), nn.ReLU(), nn.Dropout(cfg.dropout),
                                 nn.Linear(cfg.hidden, len(GENRES)))

    def forward(self, x):
        return self.net((x - self.mean) / self.std)


@torch.no_grad()
def confusion(model, loader):
    model.eval()
    m = torch.zeros(len(GENRES), len(GENRES), dtype=torch.long)
    for x, y in loader:
        for t, p in zip(y.tolist(), model(x).argmax(1).tolist()):
            m[t, p] += 1
    return m


def main():
    cfg = GenreConfig(Path(sys.argv[1]))
    torch.manual_seed(cfg.seed)
    parts = [read_part(cfg.folder / f"annotator_{k}.csv") for k in "ab"]
    train_dl = DataLoader(ConcatDataset(parts), cfg.batch_size, shuffle=True)
    valid_dl = DataLoader(read_part(cfg.folder / "heldout.csv"), 100)
    feats = torch.cat([p.tensors[0] for p in parts])

    model = GenreNet(feats.shape[1], cfg)
    model.mean.copy_(feats.mean(0))
    model.std.copy_(feats.std(0))
    opt = torch.optim.AdamW(model.parameters(), lr=cfg.lr)
    for epoch in range(1, cfg.epochs + 1):
        model.train()
        total = n = 0
        for x, y in train_dl:
            loss = nn.functional.cross_entropy(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(y)
            n += len(y)
        m = confusion(model, valid_dl)
        print(f"epoch {epoch:2d} loss {total / n:.4f} held-out acc {m.diag().sum().item() / m.sum().item():.3f}")
    print("recall " + "  ".join(f"{g} {m[i, i].item() / m[i].sum().item():.2f}" for i, g in enumerate(GENRES)))


if __name__ == "__main__":
    main()
