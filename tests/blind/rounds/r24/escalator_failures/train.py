import csv
import random
import sys
from dataclasses import dataclass, field

import numpy as np
import torch
from torch.utils.data import DataLoader, TensorDataset


@dataclass
class Settings:
    folder: str
    features: list = field(default_factory=lambda: [
        "motor_current", "vibration", "chain_elongation", "handrail_slip", "gear_temp", "age_years",
        "passengers_k", "days_since_service", "open_orders", "outdoor"])
    target: str = "failed_30d"
    epochs: int = 15
    batch: int = 64
    lr: float = 1e-3
    seed: int = 14


class ResidualBlock(torch.nn.Module):
    def __init__(self, width, p):
        super().__init__()
        self.f = torch.nn.Sequential(torch.nn.LayerNorm(width), torch.nn.Linear(width, 2 * width), torch.nn.ReLU(),
                                     torch.nn.Dropout(p), torch.nn.Linear(2 * width, width))

    def forward(self, x):
        return x + self.f(x)


def load_table(cfg):
    with open(f"{cfg.folder}/snapshots.csv", newline="") as f:
        rows = list(csv.DictReader(f))
    x = np.array([[float(r[c]) for c in cfg.features] for r in rows], dtype=np.float32)
    y = np.array([float(r[cfg.target]) for r in rows], dtype=np.float32)
    units = sorted({r["unit"] for r in rows})
    random.Random(cfg.seed).shuffle(units)
    held_out = set(units[:len(units) // 4])
    is_val = np.array([r["unit"] in held_out for r in rows])
    return x, y, is_val


def auc(score, y):
    order = np.argsort(score, kind="stable")
    rank = np.empty(len(score))
    rank[order] = np.arange(1, len(score) + 1)
    pos = y.sum()
    return (rank[y == 1].sum() - pos * (pos + 1) / 2) / (pos * (len(y) - pos))


def train(cfg):
    torch.manual_seed(cfg.seed)
    x, y, is_val = load_table(cfg)
    mean, std = x[~is_val].mean(0), x[~is_val].std(0)
    z = torch.from_numpy((x - mean) / std)
    t = torch.from_numpy(y)
    loader = DataLoader(TensorDataset(z[~is_val], t[~is_val]), batch_size=cfg.batch, shuffle=True)
    width = 32
    model = torch.nn.Sequential(torch.nn.Linear(len(cfg.features), width), ResidualBlock(width, 0.2),
                                ResidualBlock(width, 0.2), torch.nn.LayerNorm(width), torch.nn.Linear(width, 1))
    opt = torch.optim.AdamW(model.parameters(), lr=cfg.lr, weight_decay=1e-2)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, cfg.epochs)
    bce = torch.nn.BCEWithLogitsLoss()
    print(f"{(~is_val).sum()} training units, {is_val.sum()} validation units, {y.mean():.1%} failed within 30 days")
    for epoch in range(1, cfg.epochs + 1):
        model.train()
        total = 0.0
        for xb, yb in loader:
            loss = bce(model(xb).squeeze(1), yb)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(xb)
        sched.step()
        model.eval()
        with torch.no_grad():
            logits = model(z[is_val]).squeeze(1)
            val_loss = bce(logits, t[is_val]).item()
        print(f"{epoch:2d}: train {total / (~is_val).sum():.4f}  val {val_loss:.4f}  "
              f"val AUC {auc(logits.numpy(), y[is_val]):.3f}")
    return model, mean, std


if __name__ == "__main__":
    train(Settings(sys.argv[1]))
