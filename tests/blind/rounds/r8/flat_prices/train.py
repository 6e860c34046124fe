"""Asking-price regression for flats."""
import csv
import json
import sys
from pathlib import Path
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

INPUTS = ["area_m2", "rooms", "floor", "year_built", "km_center", "lift"]


def read_table(path):
    with open(path) as f:
        rows = list(csv.DictReader(f))
    x = np.array([[float(r[c]) for c in INPUTS] for r in rows], np.float32)
    y = np.array([float(r["price_eur"]) for r in rows], np.float32)
    return torch.from_numpy(x), torch.from_numpy(y)


class PriceNet(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        layers, width = [], len(INPUTS)
        for h in hidden:
            layers += [nn.Linear(width, h), nn.ReLU()]
            width = h
        self.body = nn.Sequential(*layers)
        self.price = nn.Linear(width, 1)

    def forward(self, x):
        return self.price(self.body(x)).squeeze(1)


@torch.no_grad()
def evaluate(model, x, y_eur, unit):
    model.eval()
    pred = model(x) * unit
    mape = ((pred - y_eur).abs() / y_eur).mean().item()
    r2 = 1 - ((pred - y_eur) ** 2).sum() / ((y_eur - y_eur.mean()) ** 2).sum()
    return mape, r2.item()


def main(folder):
    cfg = json.loads((folder / "config.json").read_text())
    torch.manual_seed(cfg["seed"])
    x_tr, y_tr = read_table(folder / "flats_train.csv")
    x_va, y_va = read_table(folder / "flats_val.csv")
    mu, sd = x_tr.mean(0), x_tr.std(0)
    x_tr, x_va = (x_tr - mu) / sd, (x_va - mu) / sd
    unit = cfg["price_unit"]

    loader = DataLoader(TensorDataset(x_tr, y_tr / unit), batch_size=cfg["batch_size"], shuffle=True)
    model = PriceNet(cfg["hidden"])
    opt = torch.optim.Adam(model.parameters(), lr=cfg["lr"])
    loss_fn = nn.HuberLoss()
    for epoch in range(1, cfg["epochs"] + 1):
        model.train()
        total = 0.0
        for xb, yb in loader:
            opt.zero_grad()
            loss = loss_fn(model(xb), yb)
            loss.backward()
            opt.step()
            total += loss.item() * len(yb)
        if epoch % 4 == 0:
            mape, r2 = evaluate(model, x_va, y_va, unit)
            print(f"epoch {epoch:3d}  huber {total / len(x_tr):.4f}  val MAPE {mape:.1%}  R2 {r2:.3f}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
