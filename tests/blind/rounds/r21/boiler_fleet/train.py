import csv
import os
import sys

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

TARGET = "gas_kwh"


class Telemetry(Dataset):
    """One row per boiler and day. Statistics come from the training file."""

    def __init__(self, path, stats=None):
        with open(path, newline="") as f:
            reader = csv.DictReader(f)
            rows = list(reader)
            self.names = [c for c in reader.fieldnames if c != TARGET]
        self.x = torch.tensor([[float(r[c]) for c in self.names] for r in rows])
        self.y = torch.tensor([float(r[TARGET]) for r in rows])
        if stats is None:
            stats = (self.x.mean(0), self.x.std(0), self.y.mean(), self.y.std())
        self.stats = stats
        self.x = (self.x - stats[0]) / stats[1]

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.x[i], (self.y[i] - self.stats[2]) / self.stats[3]


def mlp(sizes):
    layers = []
    for a, b in zip(sizes[:-1], sizes[1:]):
        layers += [nn.Linear(a, b), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def train_one_epoch(model, loader, opt, loss_fn):
    model.train()
    total = 0.0
    for x, y in loader:
        opt.zero_grad()
        loss = loss_fn(model(x).squeeze(1), y)
        loss.backward()
        opt.step()
        total += loss.item() * len(y)
    return total / len(loader.dataset)


def mean_abs_error(model, data):
    model.eval()
    with torch.no_grad():
        pred = model(data.x).squeeze(1) * data.stats[3] + data.stats[2]
    return (pred - data.y).abs().mean().item()


def main():
    folder = sys.argv[1]
    torch.manual_seed(123)
    train = Telemetry(os.path.join(folder, "train.csv"))
    valid = Telemetry(os.path.join(folder, "valid.csv"), stats=train.stats)
    print("columns:", ", ".join(train.names), "| train", len(train), "valid", len(valid))

    loader = DataLoader(train, batch_size=64, shuffle=True)
    model = mlp([len(train.names), 48, 48, 1])
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    epochs = 10
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=epochs, eta_min=1e-4)
    loss_fn = nn.SmoothL1Loss()
    for epoch in range(1, epochs + 1):
        loss = train_one_epoch(model, loader, opt, loss_fn)
        sched.step()
        if epoch % 2 == 0:
            print(f"epoch {epoch}  loss {loss:.4f}  MAE train {mean_abs_error(model, train):.3f}"
                  f"  valid {mean_abs_error(model, valid):.3f}")
    print(f"validation MAE (kWh): {mean_abs_error(model, valid):.4f}")


if __name__ == "__main__":
    main()
