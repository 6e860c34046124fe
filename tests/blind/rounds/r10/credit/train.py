"""Credit limit regression on quarterly account extracts, judged on the holdout extract."""
import csv
import glob

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

FEATURES = ["income", "age", "months_on_book", "utilisation", "late_payments", "other_debt"]
TARGET = "credit_limit"
config = {"hidden": 64, "epochs": 25, "batch_size": 64, "lr": 2e-3, "weight_decay": 1e-4, "seed": 2}


def read(path):
    with open(path, newline="") as fh:
        rows = list(csv.DictReader(fh))
    x = np.array([[float(r[f]) for f in FEATURES] for r in rows], dtype=np.float64)
    y = np.array([float(r[TARGET]) for r in rows], dtype=np.float64)
    return x, y


def transform(x):
    x = x.copy()
    x[:, 0] = np.log(x[:, 0])
    x[:, 5] = np.log1p(x[:, 5])
    return x


def tensors(x, y, stats):
    x = (transform(x) - stats["x_mean"]) / stats["x_std"]
    y = (np.log(y) - stats["y_mean"]) / stats["y_std"]
    return torch.tensor(x, dtype=torch.float32), torch.tensor(y, dtype=torch.float32)


def build_model(d, hidden):
    return nn.Sequential(nn.Linear(d, hidden), nn.SiLU(), nn.Linear(hidden, hidden), nn.SiLU(),
                         nn.Linear(hidden, 1), nn.Flatten(0))


def evaluate(model, x, y, stats):
    model.eval()
    with torch.no_grad():
        pred, true = model(x), y
    mse = (pred - true).pow(2).mean().item()
    p = torch.exp(pred * stats["y_std"] + stats["y_mean"])
    t = torch.exp(true * stats["y_std"] + stats["y_mean"])
    mape = ((p - t).abs() / t).mean().item()
    r2 = 1 - mse / true.var(unbiased=False).item()
    return mse, mape, r2


def main():
    torch.set_num_threads(1)
    torch.manual_seed(config["seed"])
    parts = [read(p) for p in sorted(glob.glob("data/accounts_q*.csv"))]
    x = np.concatenate([p[0] for p in parts])
    y = np.concatenate([p[1] for p in parts])
    xv, yv = read("data/holdout.csv")
    tx = transform(x)
    stats = {"x_mean": tx.mean(0), "x_std": tx.std(0),
             "y_mean": float(np.log(y).mean()), "y_std": float(np.log(y).std())}
    x, y = tensors(x, y, stats)
    xv, yv = tensors(xv, yv, stats)
    print(f"accounts: {len(x)} from {len(parts)} extracts, holdout {len(xv)}")

    loader = DataLoader(TensorDataset(x, y), batch_size=config["batch_size"], shuffle=True)
    model = build_model(x.shape[1], config["hidden"])
    opt = torch.optim.AdamW(model.parameters(), lr=config["lr"], weight_decay=config["weight_decay"])
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=config["epochs"] * len(loader))
    loss_fn = nn.MSELoss()
    for epoch in range(config["epochs"]):
        model.train()
        total = 0.0
        for xb, yb in loader:
            loss = loss_fn(model(xb), yb)
            opt.zero_grad()
            loss.backward()
            opt.step()
            sched.step()
            total += loss.item() * len(xb)
        if epoch % 2 == 0:
            mse, mape, r2 = evaluate(model, xv, yv, stats)
            print(f"epoch {epoch:2d} train mse {total / len(x):.4f} | holdout mse {mse:.4f} "
                  f"MAPE {mape:.4f} R2 {r2:.4f}")


if __name__ == "__main__":
    main()
