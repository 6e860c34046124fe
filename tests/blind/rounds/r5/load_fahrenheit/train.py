"""Regress the hourly load on calendar and weather. Usage: train.py FOLDER"""
import argparse
import pathlib
import numpy as np
import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("folder", type=pathlib.Path)
args = parser.parse_args()


def features(table):
    hour = table["hour"] * np.pi / 12
    cols = [np.sin(hour), np.cos(hour), np.sin(2 * hour), np.cos(2 * hour), table["workday"], table["temperature"], table["wind"]]
    return np.stack(cols, 1).astype(np.float32), table["load"].astype(np.float32)


def read(name):
    return features(np.genfromtxt(args.folder / name, delimiter=",", names=True))


def rmse(model, x, y, scale):
    model.eval()
    with torch.no_grad():
        return (model(x).squeeze(1) - y).pow(2).mean().sqrt().item() * scale


torch.manual_seed(5)
x_train, y_train = read("train.csv")
x_valid, y_valid = read("valid.csv")
x_mean, x_std = x_train.mean(0), x_train.std(0)
y_mean, y_std = y_train.mean(), float(y_train.std())
x_train, x_valid = (torch.from_numpy((x - x_mean) / x_std) for x in (x_train, x_valid))
y_train, y_valid = (torch.from_numpy((y - y_mean) / y_std) for y in (y_train, y_valid))
model = nn.Sequential(nn.Linear(7, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=10)
for epoch in range(10):
    model.train()
    for idx in torch.randperm(len(x_train)).split(64):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x_train[idx]).squeeze(1), y_train[idx])
        loss.backward()
        optimizer.step()
    scheduler.step()
    print(f"epoch {epoch} train rmse {rmse(model, x_train, y_train, y_std):.2f} valid rmse {rmse(model, x_valid, y_valid, y_std):.2f}")
print(f"valid rmse {rmse(model, x_valid, y_valid, y_std):.2f} MW, load std {y_std:.2f} MW")
