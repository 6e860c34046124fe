"""Price elasticity over three countries; each country office uploads its own CSV."""
import csv
import sys
from pathlib import Path
import numpy as np
import torch
from torch import nn
import torch.nn.functional as F

FOLDER = Path(sys.argv[1])
COUNTRIES = ["uk", "ie", "de"]
FEATURES = ["price", "competitor_price", "unit_cost"]
torch.manual_seed(16)


def number(text):
    return float(text.strip().replace(",", ""))


def load(country):
    with open(FOLDER / f"{country}.csv", newline="") as f:
        rows = list(csv.DictReader(f, delimiter=";"))
    x = np.array([[number(r[c]) for c in FEATURES] + [float(r["promo"])] for r in rows], dtype=np.float32)
    onehot = np.zeros((len(rows), len(COUNTRIES)), dtype=np.float32)
    onehot[:, COUNTRIES.index(country)] = 1
    y = np.log1p(np.array([int(r["units"]) for r in rows], dtype=np.float32))
    return np.hstack([x, onehot]), y


tables = {c: load(c) for c in COUNTRIES}
rng = np.random.default_rng(16)
train_x, train_y, val = [], [], {}
for country, (x, y) in tables.items():
    order = rng.permutation(len(x))
    held, kept = order[:len(x) // 4], order[len(x) // 4:]
    train_x.append(x[kept])
    train_y.append(y[kept])
    val[country] = (x[held], y[held])
x_train, y_train = torch.tensor(np.concatenate(train_x)), torch.tensor(np.concatenate(train_y))
mean, std = x_train.mean(0), x_train.std(0)
x_train = (x_train - mean) / std

model = nn.Sequential(nn.Linear(x_train.shape[1], 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
for epoch in range(24):
    model.train()
    total = 0.0
    for idx in torch.randperm(len(x_train)).split(64):
        loss = F.mse_loss(model(x_train[idx]).squeeze(1), y_train[idx])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item() * len(idx)
    if epoch % 6 == 5:
        print(f"epoch {epoch:2d} train mse {total / len(x_train):.4f}")

model.eval()
errors = []
for country, (x, y) in val.items():
    with torch.no_grad():
        pred = model((torch.tensor(x) - mean) / std).squeeze(1).numpy()
    errors.append(np.sqrt(((pred - y) ** 2).mean()))
    print(f"  {country}: val rmse(log units) {errors[-1]:.3f}, target std {y.std():.3f}")
print(f"mean val rmse {np.mean(errors):.3f}")
