"""Multi-assay potency regression from fingerprints; most compounds were measured in few assays."""
import argparse

import numpy as np
import torch
from torch import nn

N_ASSAYS = 6


def compounds(n, seed):
    rng = np.random.default_rng(seed)
    scaffold = rng.normal(0, 1, (n, 8))
    proj = np.random.default_rng(77).normal(0, 1, (8, 96))
    bits = (scaffold @ proj + rng.normal(0, 1, (n, 96)) > 0.8).astype(np.float32)
    w = np.random.default_rng(78).normal(0, 0.45, (8, N_ASSAYS))
    potency = 1.2 * np.tanh(scaffold @ w) + rng.normal(0, 0.3, (n, N_ASSAYS))
    potency = potency + np.linspace(5, 7, N_ASSAYS)
    return bits, potency.astype(np.float32)


def hide(potency, rate, rng):
    chance = rate + 0.25 * np.tanh(potency - potency.mean(0)) * 0.5
    out = potency.copy()
    out[rng.random(out.shape) < chance] = np.nan
    return out


def masked_mse(pred, target):
    target = torch.nan_to_num(target)
    mask = torch.isfinite(target).float()
    return ((pred - target) ** 2 * mask).sum() / mask.sum().clamp(min=1)


class AssayNet(nn.Module):
    def __init__(self, n_bits, hidden=128):
        super().__init__()
        self.shared = nn.Sequential(nn.Linear(n_bits, hidden), nn.ReLU(), nn.Dropout(0.25))
        self.out = nn.Linear(hidden, N_ASSAYS)

    def forward(self, x):
        return self.out(self.shared(x))


def main(args):
    torch.manual_seed(args.seed)
    bits, potency = compounds(2600, args.seed)
    train_y = hide(potency[:2000], args.missing, np.random.default_rng(args.seed + 1))
    mean, std = np.nanmean(train_y, 0), np.nanstd(train_y, 0)
    x, xt = torch.from_numpy(bits[:2000]), torch.from_numpy(bits[2000:])
    y = torch.from_numpy((train_y - mean) / std)
    print("measured per assay", np.isfinite(train_y).sum(0).tolist())
    model = AssayNet(x.shape[1])
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=1e-3)
    for epoch in range(args.epochs):
        model.train()
        running = []
        for idx in torch.randperm(len(x)).split(args.batch):
            loss = masked_mse(model(x[idx]), y[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            running.append(loss.item())
        print(f"epoch {epoch:2d} loss {np.mean(running):.4f}")
    model.eval()
    with torch.no_grad():
        pred = model(xt).numpy() * std + mean
    rmse = np.sqrt(((pred - potency[2000:]) ** 2).mean(0))
    print("per assay", rmse.round(3).tolist())
    print(f"test_rmse={rmse.mean():.4f}")


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--seed", type=int, default=6)
    p.add_argument("--missing", type=float, default=0.75)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--batch", type=int, default=64)
    p.add_argument("--epochs", type=int, default=12)
    main(p.parse_args())
