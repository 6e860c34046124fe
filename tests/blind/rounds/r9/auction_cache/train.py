"""Hammer-price model for online auctions. Features are cached beside the table because they are slow to build."""
import os
import sys

import numpy as np
import torch
from torch import nn

EPOCHS, BATCH, SEED = 20, 64, 40


def read_auctions(path):
    with open(path) as fh:
        names = fh.readline().strip().split(",")
        table = np.loadtxt(fh, delimiter=",")
    return dict(zip(names, table.T))


def build_features(t):
    start = np.log1p(t["start_price"])
    cols = [start, t["bidders"], t["photos"], t["hours"] / 24, t["seller_score"], t["new"], start * t["new"]]
    return np.stack(cols, 1).astype(np.float16)


def cached_features(folder, table):
    path = os.path.join(folder, "cache", "features.npz")
    if os.path.exists(path):
        x = np.load(path)["x"]
        if len(x) == len(table["lot"]):
            print(f"features from {path}")
            return x
    x = build_features(table)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    np.savez_compressed(path, x=x)
    return x


class PriceNet(nn.Module):
    def __init__(self, n_in, width=48):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(n_in, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, 1))

    def forward(self, x):
        return self.net(x).squeeze(1)


@torch.no_grad()
def evaluate(model, x, y):
    model.eval()
    err = model(x) - y
    return (1 - err.pow(2).sum() / (y - y.mean()).pow(2).sum()).item()


def main(folder):
    torch.manual_seed(SEED)
    table = read_auctions(os.path.join(folder, "auctions.csv"))
    x = torch.from_numpy(cached_features(folder, table).astype(np.float32))
    y = torch.from_numpy(np.log(table["hammer_price"]).astype(np.float32))
    order = torch.randperm(len(x))
    tr, va = order[:2500], order[2500:]
    mean, std = x[tr].mean(0), x[tr].std(0)
    x = (x - mean) / std
    y_mean, y_std = y[tr].mean(), y[tr].std()
    y = (y - y_mean) / y_std

    model = PriceNet(x.shape[1])
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-2)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, EPOCHS)
    for epoch in range(EPOCHS):
        model.train()
        total = 0.0
        for idx in tr[torch.randperm(len(tr))].split(BATCH):
            loss = nn.functional.huber_loss(model(x[idx]), y[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(idx)
        sched.step()
        if epoch % 4 == 3:
            print(f"epoch {epoch + 1} train huber {total / len(tr):.4f} val R2 {evaluate(model, x[va], y[va]):.3f}")

    model.eval()
    with torch.no_grad():
        guess = (model(x[va]) * y_std + y_mean).exp()
    truth = torch.from_numpy(table["hammer_price"].astype(np.float32))[va]
    print(f"median relative price error {((guess - truth).abs() / truth).median():.3f}")


if __name__ == "__main__":
    main(sys.argv[1])
