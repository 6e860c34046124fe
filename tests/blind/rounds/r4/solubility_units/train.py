import csv
import sys
from pathlib import Path
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

folder = Path(__file__).parent / sys.argv[1]
FEATURES = ["mol_weight", "logp", "tpsa", "h_donors", "ring_count", "temperature"]
SEED, EPOCHS, LR = 13, 25, 3e-3


def read(name):
    with open(folder / name, newline="") as f:
        rows = list(csv.DictReader(f))
    x = np.array([[float(r[c]) for c in FEATURES] for r in rows], np.float32)
    y = np.array([float(r["log_s"]) for r in rows], np.float32)
    return torch.from_numpy(x), torch.from_numpy(y)


class Scaler:
    def fit(self, x):
        self.mean, self.std = x.mean(0), x.std(0).clamp(min=1e-6)
        return self

    def __call__(self, x):
        return (x - self.mean) / self.std


def main():
    torch.manual_seed(SEED)
    (x, y), (xv, yv) = read("train.csv"), read("valid.csv")
    scale = Scaler().fit(x)
    y_mean, y_std = y.mean(), y.std()
    loader = DataLoader(TensorDataset(scale(x), (y - y_mean) / y_std), batch_size=32, shuffle=True)
    xv = scale(xv)
    model = nn.Sequential(nn.Linear(len(FEATURES), 32), nn.SiLU(), nn.Linear(32, 32), nn.SiLU(), nn.Linear(32, 1))
    opt = torch.optim.AdamW(model.parameters(), lr=LR, weight_decay=1e-3)
    for epoch in range(EPOCHS):
        model.train()
        total = 0.0
        for xb, yb in loader:
            loss = nn.functional.mse_loss(model(xb).squeeze(1), yb)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item()
        if epoch % 4 == 0 or epoch == EPOCHS - 1:
            model.eval()
            with torch.no_grad():
                pred = model(xv).squeeze(1) * y_std + y_mean
                rmse = (pred - yv).pow(2).mean().sqrt().item()
                r2 = 1 - (pred - yv).pow(2).mean().item() / yv.var().item()
            print(f"epoch {epoch:2d} train mse {total / len(loader):.4f} valid RMSE {rmse:.3f} R2 {r2:.3f}")


if __name__ == "__main__":
    main()
