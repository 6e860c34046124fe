"""Wildfire smoke detector on watchtower camera thumbnails."""
import argparse
import json
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
from PIL import Image
from torch.utils.data import DataLoader, Dataset


class CameraFrames(Dataset):
    def __init__(self, root: Path, split: str, augment: bool = False):
        labels = json.loads((root / f"{split}.json").read_text())
        self.images, self.labels = [], []
        for name, y in sorted(labels.items()):
            arr = np.asarray(Image.open(root / name).convert("RGB"), dtype=np.float32) / 255
            self.images.append(torch.from_numpy(arr.transpose(2, 0, 1).copy()))
            self.labels.append(float(y))
        self.augment = augment

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        x = self.images[i]
        if self.augment:
            if torch.rand(()) < 0.5:
                x = x.flip(-1)
            x = x * (0.85 + 0.3 * torch.rand(()))
        return (x - 0.45) / 0.2, torch.tensor(self.labels[i])


class SmokeNet(nn.Module):
    def __init__(self, w=16):
        super().__init__()
        layers, c = [], 3
        for o in (w, 2 * w, 2 * w):
            layers += [nn.Conv2d(c, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU(), nn.MaxPool2d(2)]
            c = o
        self.conv = nn.Sequential(*layers)
        self.head = nn.Sequential(nn.Flatten(), nn.Dropout(0.2), nn.Linear(c * 9, 1))

    def forward(self, x):
        return self.head(self.conv(x)).squeeze(1)


def evaluate(model, loader):
    model.eval()
    tp = tn = fp = fn = 0
    with torch.no_grad():
        for x, y in loader:
            p = model(x) > 0
            y = y > 0.5
            tp += (p & y).sum().item()
            tn += (~p & ~y).sum().item()
            fp += (p & ~y).sum().item()
            fn += (~p & y).sum().item()
    return 0.5 * (tp / max(1, tp + fn) + tn / max(1, tn + fp))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("root", type=Path)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--lr", type=float, default=2e-3)
    args = parser.parse_args()
    torch.manual_seed(12)
    train = CameraFrames(args.root, "train", augment=True)
    val = CameraFrames(args.root, "val")
    train_dl = DataLoader(train, batch_size=20, shuffle=True)
    val_dl = DataLoader(val, batch_size=80)
    print(f"train {len(train)} (smoke {np.mean(train.labels):.2f}), val {len(val)} (smoke {np.mean(val.labels):.2f})")
    model = SmokeNet()
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, args.epochs)
    loss_fn = nn.BCEWithLogitsLoss()
    for epoch in range(args.epochs):
        model.train()
        total = 0.0
        for x, y in train_dl:
            opt.zero_grad()
            loss = loss_fn(model(x), y)
            loss.backward()
            opt.step()
            total += loss.item() * len(y)
        sched.step()
        if epoch % 4 == 3:
            print(f"epoch {epoch + 1} loss {total / len(train):.4f} val balanced acc {evaluate(model, val_dl):.4f}")
    print(f"final val balanced accuracy {evaluate(model, val_dl):.4f}")


if __name__ == "__main__":
    main()
