"""Flood stage of tomorrow from a week of gauges, 1-d convolution over days."""
import pathlib
import sys

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class StageNet(nn.Module):
    def __init__(self, stations, days, classes=3):
        super().__init__()
        self.conv1 = nn.Conv1d(stations, 24, 3, padding=1)
        self.conv2 = nn.Conv1d(24, 24, 3, padding=1)
        self.fc1 = nn.Linear(24 * days, 48)
        self.fc2 = nn.Linear(48, classes)
        self.drop = nn.Dropout(0.1)

    def forward(self, x):
        h = F.relu(self.conv1(x.transpose(1, 2)))
        h = h + F.relu(self.conv2(h))
        return self.fc2(self.drop(F.relu(self.fc1(h.flatten(1)))))


class Standardizer:
    def fit(self, x):
        self.mean = x.mean(axis=(0, 1), keepdims=True)
        self.std = x.std(axis=(0, 1), keepdims=True) + 1e-6
        return self

    def __call__(self, x):
        return torch.from_numpy(((x - self.mean) / self.std).astype(np.float32))


def macro_f1(pred, y, classes=3):
    f1 = []
    for c in range(classes):
        tp = ((pred == c) & (y == c)).sum().item()
        fp = ((pred == c) & (y != c)).sum().item()
        fn = ((pred != c) & (y == c)).sum().item()
        f1.append(2 * tp / max(2 * tp + fp + fn, 1))
    return sum(f1) / classes


@torch.no_grad()
def predict(net, x):
    net.eval()
    return net(x).argmax(1)


def train(net, x, y, x_te, y_te, epochs=7, batch=64, lr=1e-3):
    opt = torch.optim.AdamW(net.parameters(), lr=lr, weight_decay=1e-3)
    for epoch in range(epochs):
        net.train()
        loss_sum = 0.0
        for idx in torch.randperm(len(x)).split(batch):
            loss = F.cross_entropy(net(x[idx]), y[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            loss_sum += loss.item() * len(idx)
        if epoch % 2:
            print(f"epoch {epoch + 1}: loss {loss_sum / len(x):.4f}  macro F1 {macro_f1(predict(net, x_te), y_te):.4f}")


def main():
    torch.manual_seed(1)
    with np.load(pathlib.Path(sys.argv[1]) / "basin.npz") as z:
        raw = {k: z[k] for k in z.files}
    norm = Standardizer().fit(raw["train_x"])
    x, x_te = norm(raw["train_x"]), norm(raw["test_x"])
    y, y_te = torch.from_numpy(raw["train_y"]), torch.from_numpy(raw["test_y"])
    print("stations:", *raw["stations"], "| windows", len(x), "+", len(x_te), "| stages", torch.bincount(y).tolist())
    net = StageNet(x.shape[2], x.shape[1])
    train(net, x, y, x_te, y_te)
    print(f"macro F1 on the last season: {macro_f1(predict(net, x_te), y_te):.4f}")


if __name__ == "__main__":
    main()
