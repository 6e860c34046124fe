"""Road freight cost model trained on last year's shipments, validated on this quarter."""
import csv
import os
import sys
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

FEATURES = ("distance", "weight", "volume", "express")


@dataclass
class FreightConfig:
    hidden: int = 48
    lr: float = 4e-3
    epochs: int = 15
    batch_size: int = 64
    seed: int = 31


def read_shipments(path):
    with open(path, newline="") as f:
        rows = list(csv.DictReader(f))
    x = np.array([[float(r[c]) for c in FEATURES] for r in rows], np.float32)
    y = np.array([float(r["cost_eur"]) for r in rows], np.float32)
    x[:, :3] = np.log1p(x[:, :3])
    return torch.from_numpy(x), torch.from_numpy(y).log()


class CostNet(nn.Module):
    def __init__(self, n_in, hidden):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(n_in, hidden), nn.SiLU(), nn.Linear(hidden, hidden), nn.SiLU(),
                                 nn.Linear(hidden, 1))

    def forward(self, x):
        return self.net(x).squeeze(1)


def train_one_epoch(model, opt, x, y, batch_size):
    model.train()
    total = 0.0
    for idx in torch.randperm(len(x)).split(batch_size):
        loss = nn.functional.mse_loss(model(x[idx]), y[idx])
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss.item() * len(idx)
    return total / len(x)


@torch.no_grad()
def mape(model, x, log_cost, mean, std):
    model.eval()
    pred = (model(x) * std + mean).exp()
    cost = log_cost.exp()
    return ((pred - cost).abs() / cost).mean().item(), ((pred - cost) / cost).mean().item()


def main(folder):
    cfg = FreightConfig()
    torch.manual_seed(cfg.seed)
    x, y = read_shipments(os.path.join(folder, "shipments_train.csv"))
    x_va, y_va = read_shipments(os.path.join(folder, "shipments_valid.csv"))
    mu, sd = x.mean(0), x.std(0)
    x, x_va = (x - mu) / sd, (x_va - mu) / sd
    y_mu, y_sd = y.mean(), y.std()
    z = (y - y_mu) / y_sd

    model = CostNet(len(FEATURES), cfg.hidden)
    opt = torch.optim.Adam(model.parameters(), lr=cfg.lr)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, cfg.epochs)
    for epoch in range(cfg.epochs):
        loss = train_one_epoch(model, opt, x, z, cfg.batch_size)
        sched.step()
        train_mape, _ = mape(model, x, y, y_mu, y_sd)
        valid_mape, bias = mape(model, x_va, y_va, y_mu, y_sd)
        print(f"epoch {epoch + 1:2d} loss {loss:.4f} train MAPE {train_mape:.3f} "
              f"valid MAPE {valid_mape:.3f} bias {bias:+.3f}")


if __name__ == "__main__":
    main(sys.argv[1])
