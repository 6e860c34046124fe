import copy
import csv
import sys
import tomllib
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn


def read(folder, cfg):
    with open(folder / cfg["file"], newline="") as f:
        rows = list(csv.DictReader(f))
    cat = cfg["categorical"]
    levels = sorted({r[cat] for r in rows})
    numeric = [c for c in rows[0] if c not in ("wheel", cat, cfg["target"], "split")]
    x = np.array([[float(r[c]) for c in numeric] for r in rows])
    onehot = np.array([[r[cat] == v for v in levels] for r in rows], dtype=float)
    y = np.array([float(r[cfg["target"]]) for r in rows])
    train = np.array([r["split"] == "train" for r in rows])
    x = (x - x[train].mean(0)) / x[train].std(0)
    x = torch.tensor(np.hstack([x, onehot]), dtype=torch.float32)
    return x, torch.tensor(y, dtype=torch.float32), torch.from_numpy(train)


class ResidualMLP(nn.Module):
    def __init__(self, n_in, hidden, dropout):
        super().__init__()
        self.first = nn.Linear(n_in, hidden)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(hidden), nn.Linear(hidden, hidden), nn.GELU(), nn.Dropout(dropout),
                          nn.Linear(hidden, hidden)) for _ in range(2))
        self.last = nn.Sequential(nn.GELU(), nn.Linear(hidden, 1))

    def forward(self, x):
        h = self.first(x)
        for b in self.blocks:
            h = h + b(h)
        return self.last(h).squeeze(-1)


class EMA:
    """Running average of the weights; used for validation and for the exported model."""

    def __init__(self, model, decay):
        self.shadow = copy.deepcopy(model).eval().requires_grad_(False)
        self.decay = decay

    @torch.no_grad()
    def update(self, model):
        for s, p in zip(self.shadow.parameters(), model.parameters()):
            s.lerp_(p, 1 - self.decay)
        for s, b in zip(self.shadow.buffers(), model.buffers()):
            s.copy_(b)


def mae(model, x, y, mean, std):
    model.eval()
    with torch.no_grad():
        return (model(x) * std + mean - y).abs().mean().item()


def main():
    folder = Path(sys.argv[1])
    cfg = tomllib.loads((folder / "config.toml").read_text())
    hp = cfg["train"]
    torch.manual_seed(hp["seed"])
    x, y, is_train = read(folder, cfg["data"])
    xt, yt, xv, yv = x[is_train], y[is_train], x[~is_train], y[~is_train]
    mean, std = yt.mean(), yt.std()

    model = ResidualMLP(x.shape[1], cfg["model"]["hidden"], cfg["model"]["dropout"])
    ema = EMA(model, hp["ema_decay"])
    opt = torch.optim.AdamW(model.parameters(), lr=hp["lr"], weight_decay=hp["weight_decay"])
    n_batches = (len(xt) + hp["batch_size"] - 1) // hp["batch_size"]
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, hp["epochs"] * n_batches)
    for epoch in range(1, hp["epochs"] + 1):
        model.train()
        total = 0.0
        for idx in torch.randperm(len(xt)).split(hp["batch_size"]):
            loss = nn.functional.smooth_l1_loss(model(xt[idx]), (yt[idx] - mean) / std)
            opt.zero_grad()
            loss.backward()
            opt.step()
            sched.step()
            ema.update(model)
            total += loss.item() * len(idx)
        if epoch % 2 == 0:
            print(f"epoch {epoch:3d}  train loss {total / len(xt):.4f}  val MAE {mae(ema.shadow, xv, yv, mean, std):.3f}")
    print(f"final validation MAE {mae(ema.shadow, xv, yv, mean, std):.3f} points")


if __name__ == "__main__":
    main()
