"""Winter wheat yield per field from remote sensing, weather and soil records."""
import configparser
import csv
import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

NUMERIC = ["ndvi_june", "ndvi_july", "rain_spring", "rain_summer", "soil_ph", "soil_moisture", "nitrogen", "gdd"]
VARIETIES = "ABCD"


def read_table(path):
    with open(path, newline="") as f:
        rows = list(csv.DictReader(f))
    num = np.array([[float(r[c]) if r[c] else np.nan for c in NUMERIC] for r in rows])
    var = np.array([VARIETIES.index(r["variety"]) for r in rows])
    return num, var, np.array([float(r["yield_t_ha"]) for r in rows])


class FieldScaler:
    def fit(self, num, y):
        self.mean, self.std = np.nanmean(num, axis=0), np.nanstd(num, axis=0)
        self.y_mean, self.y_std = y.mean(), y.std()
        return self

    def features(self, num):
        z = (num - self.mean) / self.std
        return np.nan_to_num(z, nan=0.0)


class FieldDataset(Dataset):
    def __init__(self, table, scaler):
        num, var, y = table
        onehot = np.eye(len(VARIETIES))[var]
        self.x = torch.tensor(np.hstack([scaler.features(num), onehot]), dtype=torch.float32)
        self.y = torch.tensor((y - scaler.y_mean) / scaler.y_std, dtype=torch.float32)

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


class YieldNet(nn.Module):
    def __init__(self, n_in, hidden, dropout):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(n_in, hidden), nn.ReLU(), nn.Dropout(dropout),
            nn.Linear(hidden, hidden), nn.ReLU(), nn.Dropout(dropout),
            nn.Linear(hidden, 1),
        )

    def forward(self, x):
        return self.net(x)[:, 0]


def evaluate(model, loader, scaler):
    model.eval()
    p, t = [], []
    with torch.no_grad():
        for x, y in loader:
            p.append(model(x))
            t.append(y)
    p, t = torch.cat(p), torch.cat(t)
    rmse = ((p - t) ** 2).mean().sqrt().item() * scaler.y_std
    return rmse, 1 - ((p - t) ** 2).mean().item() / t.var(unbiased=False).item()


def main():
    folder = Path(sys.argv[1])
    cfg = configparser.ConfigParser()
    cfg.read(folder / "settings.ini")
    tr = cfg["train"]
    torch.manual_seed(tr.getint("seed"))
    train_table, valid_table = read_table(folder / "train.csv"), read_table(folder / "valid.csv")
    scaler = FieldScaler().fit(train_table[0], train_table[2])
    train = DataLoader(FieldDataset(train_table, scaler), batch_size=tr.getint("batch_size"), shuffle=True)
    valid = DataLoader(FieldDataset(valid_table, scaler), batch_size=512)
    model = YieldNet(len(NUMERIC) + len(VARIETIES), cfg["model"].getint("hidden"), cfg["model"].getfloat("dropout"))
    opt = torch.optim.AdamW(model.parameters(), lr=tr.getfloat("lr"), weight_decay=tr.getfloat("weight_decay"))
    for epoch in range(tr.getint("epochs")):
        model.train()
        total = 0.0
        for x, y in train:
            loss = nn.functional.mse_loss(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(y)
        if epoch % 4 == 0:
            rmse, r2 = evaluate(model, valid, scaler)
            print(f"epoch {epoch:3d} mse {total / len(train.dataset):.4f} valid rmse {rmse:.3f} t/ha r2 {r2:.3f}", flush=True)
    rmse, r2 = evaluate(model, valid, scaler)
    print(f"final: rmse {rmse:.3f} t/ha, r2 {r2:.4f}")


if __name__ == "__main__":
    main()
