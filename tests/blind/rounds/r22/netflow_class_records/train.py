"""Application class of a network flow from its summary record (structured .npy files)."""
import os
import sys

import numpy as np
import torch
from torch import nn, optim
from torch.nn.functional import cross_entropy

torch.manual_seed(9)

APPS = ["dns", "mail", "web", "upload", "voip", "video"]


def signed_log(v):
    return np.sign(v) * np.log1p(np.abs(v))


def load_flows(path):
    rec = np.load(path)
    cols = [signed_log(rec[c].astype(np.float64)) for c in ("bytes_in", "bytes_out", "packets")]
    cols.append(np.log1p(rec["duration_ms"].astype(np.float64)))
    x = torch.tensor(np.stack(cols, 1), dtype=torch.float32)
    return x, torch.tensor(rec["app"].astype(np.int64))


def confusion(guess, truth, k):
    return torch.bincount(truth * k + guess, minlength=k * k).view(k, k)


def macro_f1(matrix):
    tp = matrix.diag().float()
    f1 = 2 * tp / (matrix.sum(0) + matrix.sum(1)).clamp(min=1)
    return f1.mean().item()


def build(n_in, n_out):
    return nn.Sequential(
        nn.Linear(n_in, 64), nn.BatchNorm1d(64), nn.ReLU(),
        nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU(),
        nn.Linear(64, n_out))


def evaluate(model, x, y):
    model.eval()
    with torch.no_grad():
        guess = model(x).argmax(dim=1)
    return confusion(guess, y, len(APPS))


def main(folder):
    x_train, y_train = load_flows(os.path.join(folder, "flows_week1.npy"))
    x_val, y_val = load_flows(os.path.join(folder, "flows_week2.npy"))
    mean, std = x_train.mean(0), x_train.std(0)
    x_train, x_val = (x_train - mean) / std, (x_val - mean) / std

    model = build(x_train.shape[1], len(APPS))
    epochs, batch = 12, 90
    optimizer = optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    schedule = optim.lr_scheduler.MultiStepLR(optimizer, milestones=[7, 10], gamma=0.2)
    for epoch in range(epochs):
        model.train()
        order = torch.randperm(len(x_train))
        running = 0.0
        for i in range(0, len(order), batch):
            pick = order[i:i + batch]
            loss = cross_entropy(model(x_train[pick]), y_train[pick])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            running += loss.item() * len(pick)
        schedule.step()
        table = evaluate(model, x_val, y_val)
        print(f"epoch {epoch:2d} train loss {running / len(order):.4f} val macro-F1 {macro_f1(table):.4f}")

    for name, row in zip(APPS, table.tolist()):
        print(f"{name:>8s} " + " ".join(f"{v:5d}" for v in row))
    print(f"validation macro-F1 {macro_f1(table):.4f}")


if __name__ == "__main__":
    main(sys.argv[1])
