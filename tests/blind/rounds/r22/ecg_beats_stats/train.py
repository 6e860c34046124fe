"""Beat classification on four-lead ECG segments; per-lead statistics come from recording.toml."""
import argparse
import pathlib
import tomllib

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

RHYTHMS = ["normal", "pvc", "lbbb", "apc"]


def lead_statistics(path):
    with open(path, "rb") as f:
        meta = tomllib.load(f)
    mean = torch.tensor([lead["mean"] for lead in meta["lead"]])
    std = torch.tensor([lead["std"] for lead in meta["lead"]])
    return mean[:, None], std[:, None]


def load_part(home, part, mean, std):
    with np.load(home / f"{part}.npz") as z:
        signal = torch.from_numpy(z["signal"].astype(np.float32))
        label = torch.from_numpy(z["label"].astype(np.int64))
    return TensorDataset((signal - mean) / std, label)


class BeatNet(nn.Module):
    def __init__(self, leads, classes):
        super().__init__()
        self.conv1 = nn.Conv1d(leads, 16, 7, padding=3)
        self.conv2 = nn.Conv1d(16, 24, 5, padding=2)
        self.pool = nn.MaxPool1d(4)
        self.fc = nn.Linear(24 * 5, classes)
        self.act = nn.ReLU()

    def forward(self, x):
        x = self.pool(self.act(self.conv1(x)))
        x = self.pool(self.act(self.conv2(x)))
        return self.fc(x.flatten(1))


def train_one_epoch(net, loader, optimizer, loss_fn):
    net.train()
    total = 0.0
    for x, y in loader:
        loss = loss_fn(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item() * len(y)
    return total / len(loader.dataset)


@torch.no_grad()
def balanced_accuracy(net, loader):
    net.eval()
    hit, count = torch.zeros(len(RHYTHMS)), torch.zeros(len(RHYTHMS))
    for x, y in loader:
        good = (net(x).argmax(1) == y).float()
        hit.index_add_(0, y, good)
        count.index_add_(0, y, torch.ones_like(good))
    return (hit / count).mean().item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("home", type=pathlib.Path)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--batch-size", type=int, default=32)
    args = parser.parse_args()
    torch.manual_seed(10)

    mean, std = lead_statistics(args.home / "recording.toml")
    train = DataLoader(load_part(args.home, "train", mean, std), batch_size=args.batch_size, shuffle=True)
    val = DataLoader(load_part(args.home, "val", mean, std), batch_size=250)
    net = BeatNet(len(mean), len(RHYTHMS))
    optimizer = torch.optim.Adam(net.parameters(), lr=args.lr)
    loss_fn = nn.CrossEntropyLoss()
    for epoch in range(args.epochs):
        loss = train_one_epoch(net, train, optimizer, loss_fn)
        score = balanced_accuracy(net, val)
        print(f"epoch {epoch + 1}: loss {loss:.4f}  balanced accuracy {score:.4f}")
    print(f"balanced validation accuracy {score:.4f}")


if __name__ == "__main__":
    main()
