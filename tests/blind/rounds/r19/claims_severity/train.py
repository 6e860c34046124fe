"""Early warning of large losses in motor claims.

usage: python train.py DIR     (DIR holds train.csv, valid.csv and incoming.csv)
"""
import csv
import logging
import os
import sys

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
log = logging.getLogger("claims")

TARGET = "large_loss"
SKIP = {"claim_id", TARGET}
CATEGORICAL = ("claim_type", "region")
MONEY = ("vehicle_value", "repair_estimate", "paid_to_date")


def read_csv(path):
    with open(path, newline="") as f:
        return list(csv.DictReader(f))


class Preprocessor:
    def fit(self, rows):
        self.numeric = [c for c in rows[0] if c not in SKIP and c not in CATEGORICAL]
        self.levels = {c: sorted({r[c] for r in rows}) for c in CATEGORICAL}
        raw = self._numeric(rows)
        self.mean, self.std = raw.mean(0), raw.std(0) + 1e-8
        return self

    def _numeric(self, rows):
        cols = []
        for c in self.numeric:
            v = np.array([float(r[c]) for r in rows])
            cols.append(np.log1p(v) if c in MONEY else v)
        return np.stack(cols, axis=1)

    def transform(self, rows):
        blocks = [(self._numeric(rows) - self.mean) / self.std]
        for c, levels in self.levels.items():
            blocks.append(np.array([[r[c] == level for level in levels] for r in rows], dtype=float))
        x = np.concatenate(blocks, axis=1).astype(np.float32)
        y = np.array([float(r[TARGET]) for r in rows], dtype=np.float32)
        return torch.from_numpy(x), torch.from_numpy(y)


class ClaimNet(nn.Module):
    def __init__(self, n_in, width=64, p=0.1):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(n_in, width), nn.ReLU(), nn.Dropout(p),
                                 nn.Linear(width, width), nn.ReLU(), nn.Dropout(p), nn.Linear(width, 1))

    def forward(self, x):
        return self.net(x).squeeze(-1)


def auc(score, y):
    order = np.argsort(score, kind="stable")
    rank = np.empty(len(score))
    rank[order] = np.arange(1, len(score) + 1)
    pos = y.sum()
    return (rank[y == 1].sum() - pos * (pos + 1) / 2) / (pos * (len(y) - pos))


def evaluate(model, x, y):
    model.eval()
    with torch.no_grad():
        p = torch.sigmoid(model(x)).numpy()
    y = y.numpy()
    return auc(p, y), ((p > 0.5) == (y > 0.5)).mean()


def main(folder):
    torch.manual_seed(0)
    rows = {name: read_csv(os.path.join(folder, name + ".csv")) for name in ("train", "valid", "incoming")}
    prep = Preprocessor().fit(rows["train"])
    data = {name: prep.transform(r) for name, r in rows.items()}
    x, y = data["train"]
    log.info("%d claims, %d features, %.1f%% large", len(y), x.shape[1], 100 * y.mean().item())
    loader = DataLoader(TensorDataset(x, y), batch_size=128, shuffle=True)
    model = ClaimNet(x.shape[1])
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1e-3)
    loss_fn = nn.BCEWithLogitsLoss()
    for epoch in range(15):
        model.train()
        total = 0.0
        for xb, yb in loader:
            opt.zero_grad()
            loss = loss_fn(model(xb), yb)
            loss.backward()
            opt.step()
            total += loss.item() * len(yb)
        a, acc = evaluate(model, *data["valid"])
        log.info("epoch %2d loss %.4f valid auc %.4f acc %.4f", epoch, total / len(y), a, acc)
    a, acc = evaluate(model, *data["incoming"])
    print(f"incoming claims: auc {a:.4f} accuracy {acc:.4f}")


if __name__ == "__main__":
    main(sys.argv[1])
