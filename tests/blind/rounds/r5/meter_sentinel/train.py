import csv
import os
import sys
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split


class MeterTable:
    def __init__(self, path):
        with open(path, newline="") as f:
            reader = csv.reader(f)
            self.columns = next(reader)[:-1]
            rows = [[float(v) for v in row] for row in reader]
        table = np.array(rows, dtype=np.float32)
        self.x, self.y = torch.from_numpy(table[:, :-1].copy()), torch.from_numpy(table[:, -1].astype(np.int64))


class TariffNet(nn.Module):
    def __init__(self, n_in, mean, std):
        super().__init__()
        self.register_buffer("mean", mean)
        self.register_buffer("std", std)
        self.net = nn.Sequential(nn.Linear(n_in, 32), nn.ReLU(), nn.Linear(32, 4))

    def forward(self, x):
        return self.net((x - self.mean) / self.std)


def accuracy(model, loader):
    model.eval()
    hit = n = 0
    with torch.no_grad():
        for x, y in loader:
            hit += (model(x).argmax(1) == y).sum().item()
            n += len(y)
    return hit / n


def main():
    torch.manual_seed(6)
    table = MeterTable(os.path.join(sys.argv[1], "meters.csv"))
    train_set, valid_set = random_split(TensorDataset(table.x, table.y), [1200, 400])
    train_x = table.x[train_set.indices]
    model = TariffNet(len(table.columns), train_x.mean(0), train_x.std(0))
    train_loader = DataLoader(train_set, batch_size=40, shuffle=True)
    valid_loader = DataLoader(valid_set, batch_size=200)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for epoch in range(10):
        model.train()
        total = 0.0
        for x, y in train_loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(f"epoch {epoch} loss {total / len(train_loader):.4f} valid acc {accuracy(model, valid_loader):.3f}")
    print(f"valid accuracy {accuracy(model, valid_loader):.3f}")


if __name__ == "__main__":
    main()
