import csv
import os
import sys
from dataclasses import dataclass

import numpy as np
import torch


@dataclass
class Config:
    lr: float = 3e-3
    batch: int = 256
    epochs: int = 12
    hidden: int = 32
    seed: int = 5


def load(path):
    with open(path) as f:
        reader = csv.reader(f)
        header = next(reader)
        rows = list(reader)
    names = [c for c in header if c not in ("tx_id", "is_fraud")]
    pos = [header.index(c) for c in names]
    x = np.array([[float(r[i]) for i in pos] for r in rows], dtype=np.float32)
    for c in ("amount_eur", "account_age_days"):
        x[:, names.index(c)] = np.log1p(x[:, names.index(c)])
    night = (x[:, names.index("hour")] < 6).astype(np.float32)[:, None]
    y = np.array([float(r[header.index("is_fraud")]) for r in rows], dtype=np.float32)
    return torch.from_numpy(np.hstack([x, night])), torch.from_numpy(y)


def average_precision(score, y):
    order = torch.argsort(score, descending=True, stable=True)
    hit = y[order]
    precision = hit.cumsum(0) / torch.arange(1, len(hit) + 1)
    return ((precision * hit).sum() / hit.sum()).item()


def main(folder, cfg=Config()):
    torch.manual_seed(cfg.seed)
    xtr, ytr = load(os.path.join(folder, "transactions_train.csv"))
    xte, yte = load(os.path.join(folder, "transactions_test.csv"))
    mu, sd = xtr.mean(0), xtr.std(0)
    xtr, xte = (xtr - mu) / sd, (xte - mu) / sd

    net = torch.nn.Sequential(
        torch.nn.Linear(xtr.shape[1], cfg.hidden), torch.nn.ReLU(), torch.nn.Dropout(0.1),
        torch.nn.Linear(cfg.hidden, 1))
    opt = torch.optim.AdamW(net.parameters(), lr=cfg.lr, weight_decay=1e-2)
    bce = torch.nn.BCEWithLogitsLoss()
    for epoch in range(1, cfg.epochs + 1):
        net.train()
        losses = []
        for ix in torch.randperm(len(ytr)).split(cfg.batch):
            loss = bce(net(xtr[ix]).squeeze(1), ytr[ix])
            opt.zero_grad()
            loss.backward()
            opt.step()
            losses.append(loss.item())
        if epoch % 3 == 0:
            print(f"epoch {epoch:2d} loss {sum(losses) / len(losses):.4f}")
    net.eval()
    with torch.no_grad():
        ap = average_precision(net(xte).squeeze(1), yte)
    print(f"test average precision {ap:.4f} (base rate {yte.mean():.4f})")


if __name__ == "__main__":
    main(sys.argv[1])
