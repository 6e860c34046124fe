"""Card fraud model on exported transactions; inputs are standardised with the stored scaler."""
import csv
import json
import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


def read_transactions(path, columns):
    with open(path, newline="") as f:
        rows = list(csv.DictReader(f))
    x = np.array([[float(r[c]) for c in columns] for r in rows], dtype=np.float32)
    y = np.array([float(r["fraud"]) for r in rows], dtype=np.float32)
    return x, y


def standardise(x, scaler):
    mean = np.array(scaler["mean"], dtype=np.float32)
    std = np.array(scaler["std"], dtype=np.float32)
    return torch.from_numpy((x - mean) / std)


def auc(score, y):
    pos, neg = score[y == 1], score[y == 0]
    diff = pos[:, None] - neg[None, :]
    return ((diff > 0).float() + 0.5 * (diff == 0).float()).mean().item()


def main(folder):
    folder = Path(folder)
    torch.manual_seed(0)
    scaler = json.loads((folder / "scaler.json").read_text())
    x_tr, y_tr = read_transactions(folder / "train.csv", scaler["columns"])
    x_va, y_va = read_transactions(folder / "valid.csv", scaler["columns"])
    x_tr, x_va = standardise(x_tr, scaler), standardise(x_va, scaler)
    y_tr, y_va = torch.from_numpy(y_tr), torch.from_numpy(y_va)
    print(f"{len(x_tr)} training rows, {y_tr.mean().item():.1%} fraud")

    loader = DataLoader(TensorDataset(x_tr, y_tr), batch_size=100, shuffle=True)
    model = nn.Sequential(nn.Linear(x_tr.shape[1], 32), nn.ReLU(), nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 1))
    loss_fn = nn.BCEWithLogitsLoss()
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    for epoch in range(1, 13):
        model.train()
        total = 0.0
        for xb, yb in loader:
            loss = loss_fn(model(xb).squeeze(1), yb)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(xb)
        model.eval()
        with torch.no_grad():
            out = model(x_va).squeeze(1)
            vloss = loss_fn(out, y_va).item()
        if epoch % 3 == 0:
            print(f"epoch {epoch:2d}  train {total / len(x_tr):.4f}  valid {vloss:.4f}  AUC {auc(out, y_va):.4f}")


if __name__ == "__main__":
    main(sys.argv[1])
