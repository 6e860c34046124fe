"""Default probability from bureau data: z-scored features, small MLP. usage: train.py FOLDER"""
import sys
import json
import os
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

FOLDER = sys.argv[1]


def load(name):
    path = os.path.join(FOLDER, name)
    table = np.genfromtxt(path, delimiter=",", names=True)
    features = [c for c in table.dtype.names if c != "default"]
    x = np.stack([table[c] for c in features], 1).astype(np.float32)
    return features, torch.tensor(x), torch.tensor(table["default"].astype(np.float32))


def auc(score, label):
    rank = np.argsort(np.argsort(score)) + 1.0
    n_pos = (label == 1).sum()
    return (rank[label == 1].sum() - n_pos * (n_pos + 1) / 2) / (n_pos * (len(label) - n_pos))


def main():
    with open(os.path.join(FOLDER, "config.json")) as f:
        cfg = json.load(f)
    torch.manual_seed(cfg["seed"])
    names, x_train, y_train = load("train.csv")
    _, x_val, y_val = load("val.csv")
    mean, std = x_train.mean(0), x_train.std(0)
    x_train, x_val = (x_train - mean) / std, (x_val - mean) / std
    loader = DataLoader(TensorDataset(x_train, y_train), batch_size=cfg["batch_size"], shuffle=True)
    model = nn.Sequential(nn.Linear(len(names), cfg["hidden"]), nn.ReLU(), nn.Linear(cfg["hidden"], 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=cfg["lr"], weight_decay=cfg["weight_decay"])
    criterion = nn.BCEWithLogitsLoss()
    for epoch in range(cfg["epochs"]):
        model.train()
        total = 0.0
        for x, y in loader:
            loss = criterion(model(x).squeeze(1), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(y)
        model.eval()
        with torch.no_grad():
            logit = model(x_val).squeeze(1)
            val_loss = criterion(logit, y_val).item()
        if epoch % 4 == 3:
            print(f"epoch {epoch:2d} train {total / len(y_train):.4f} val {val_loss:.4f} AUC {auc(logit.numpy(), y_val.numpy()):.3f}")


if __name__ == "__main__":
    main()
