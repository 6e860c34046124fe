"""Beat classification from single-lead ECG."""
import argparse
import json
import os

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def load_split(folder, prefix=""):
    x = np.load(os.path.join(folder, prefix + "beats.npy"))
    y = np.load(os.path.join(folder, prefix + "labels.npy"))
    assert len(x) == len(y), "beats and labels differ in number"
    x = x - x.mean(1, keepdims=True)
    return torch.from_numpy(x).unsqueeze(1), torch.from_numpy(y).long()


class Block(nn.Module):
    def __init__(self, cin, cout, k):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv1d(cin, cout, k, stride=2, padding=k // 2, bias=False),
            nn.BatchNorm1d(cout),
            nn.ReLU(),
        )

    def forward(self, x):
        return self.body(x)


class BeatNet(nn.Module):
    def __init__(self, n_types, width=12):
        super().__init__()
        self.stem = Block(1, width, 7)
        self.mid = Block(width, 2 * width, 5)
        self.head = nn.Sequential(nn.Flatten(), nn.Dropout(0.2), nn.Linear(2 * width * 18, n_types))

    def forward(self, x):
        return self.head(self.mid(self.stem(x)))


def evaluate(model, loader):
    model.eval()
    right = count = 0
    with torch.no_grad():
        for xb, yb in loader:
            right += (model(xb).argmax(1) == yb).sum().item()
            count += len(yb)
    return right / count


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--seed", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(args.seed)

    with open(os.path.join(args.folder, "meta.json")) as f:
        meta = json.load(f)
    x, y = load_split(args.folder)
    scale = x.std()
    xc, yc = load_split(args.folder, "checked_")
    train = DataLoader(TensorDataset(x / scale, y), batch_size=args.batch, shuffle=True)
    checked = DataLoader(TensorDataset(xc / scale, yc), batch_size=256)

    model = BeatNet(len(meta["types"]))
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    loss_fn = nn.CrossEntropyLoss()
    for epoch in range(args.epochs):
        model.train()
        total = 0.0
        for xb, yb in train:
            loss = loss_fn(model(xb), yb)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item()
        print(f"epoch {epoch + 1}  loss {total / len(train):.4f}  checked accuracy {evaluate(model, checked):.4f}")
    print(f"accuracy on hand-checked beats: {evaluate(model, checked):.4f}")


if __name__ == "__main__":
    main()
