"""30-day failure risk of tram doors.

python train.py DIR                          trains and validates
python train.py DIR --score doors_today.csv  also scores another snapshot in DIR
"""
import argparse
import csv
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class Config:
    hidden: int = 48
    dropout: float = 0.1
    lr: float = 2e-3
    weight_decay: float = 1e-3
    batch: int = 64
    epochs: int = 16
    seed: int = 8


FEATURES = ["age_years", "cycles_per_day", "motor_current_ma", "closing_time_s", "mean_temp_c",
            "days_since_overhaul", "work_orders_12m"]


def load(path):
    with open(path) as f:
        rows = list(csv.DictReader(f))
    x = torch.tensor([[float(r[c]) for c in FEATURES] for r in rows])
    y = torch.tensor([float(r["failed_30d"]) for r in rows])
    return x, y


def auc(score, y):
    order = score.argsort()
    rank = torch.empty(len(score), dtype=torch.float64)
    rank[order] = torch.arange(1, len(score) + 1, dtype=torch.float64)
    pos = y > 0.5
    n1, n0 = pos.sum().item(), (~pos).sum().item()
    return (rank[pos].sum().item() - n1 * (n1 + 1) / 2) / (n1 * n0)


def build(cfg):
    return nn.Sequential(
        nn.Linear(len(FEATURES), cfg.hidden), nn.SiLU(), nn.Dropout(cfg.dropout),
        nn.Linear(cfg.hidden, cfg.hidden), nn.SiLU(), nn.Dropout(cfg.dropout),
        nn.Linear(cfg.hidden, 1), nn.Flatten(0))


@torch.no_grad()
def evaluate(net, x, y):
    net.eval()
    z = net(x)
    return F.binary_cross_entropy_with_logits(z, y).item(), auc(z, y)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("folder", type=Path)
    ap.add_argument("--score")
    args = ap.parse_args()
    cfg = Config()
    torch.manual_seed(cfg.seed)
    torch.set_num_threads(1)

    x, y = load(args.folder / "doors_2022_2023.csv")
    perm = torch.randperm(len(x))
    va, tr = perm[:700], perm[700:]
    mean, std = x[tr].mean(0), x[tr].std(0)
    x = (x - mean) / std
    net = build(cfg)
    opt = torch.optim.AdamW(net.parameters(), lr=cfg.lr, weight_decay=cfg.weight_decay)
    best, keep = float("inf"), None
    for epoch in range(cfg.epochs):
        net.train()
        total = 0.0
        for idx in tr[torch.randperm(len(tr))].split(cfg.batch):
            loss = F.binary_cross_entropy_with_logits(net(x[idx]), y[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(idx)
        val_loss, val_auc = evaluate(net, x[va], y[va])
        if val_loss < best:
            best, keep = val_loss, {k: v.clone() for k, v in net.state_dict().items()}
        if epoch % 4 == 0:
            print(f"epoch {epoch:2d}  train {total / len(tr):.4f}  valid {val_loss:.4f}  AUC {val_auc:.3f}")
    net.load_state_dict(keep)
    print("kept model: valid loss {:.4f}  AUC {:.3f}".format(*evaluate(net, x[va], y[va])))
    if args.score:
        xs, ys = load(args.folder / args.score)
        print("{}: loss {:.4f}  AUC {:.3f}".format(args.score, *evaluate(net, (xs - mean) / std, ys)))


if __name__ == "__main__":
    main()
