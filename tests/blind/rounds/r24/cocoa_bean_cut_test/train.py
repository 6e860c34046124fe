"""Fermentation grade (1-9) of cut cocoa beans from a photograph."""
import argparse
import csv
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn


class Beans:
    def __init__(self, folder, val_trays=10, seed=0):
        photos = np.load(folder / "photos.npy").astype(np.float32) / 255
        with open(folder / "grades.csv", newline="") as f:
            rows = list(csv.DictReader(f))
        grade = np.array([float(r["grade"]) for r in rows], dtype=np.float32)
        tray = np.array([r["tray"] for r in rows])
        row = np.array([int(r["bean"][1:]) for r in rows])
        photos = photos[row]
        held = np.random.default_rng(seed).permutation(np.unique(tray))[:val_trays]
        val = np.isin(tray, held)
        self.mean = photos[~val].mean((0, 2, 3), keepdims=True)
        self.std = photos[~val].std((0, 2, 3), keepdims=True)
        self.centre, self.unit = float(grade[~val].mean()), float(grade[~val].std())
        x = torch.from_numpy((photos - self.mean) / self.std)
        y = torch.from_numpy(grade)
        self.train = x[~val], y[~val]
        self.val = x[val], y[val]

    def batches(self, size):
        x, y = self.train
        for idx in torch.randperm(len(x)).split(size):
            xb = x[idx]
            if torch.rand(()) < 0.5:
                xb = xb.flip(-1)
            if torch.rand(()) < 0.5:
                xb = xb.flip(-2)
            yield xb, (y[idx] - self.centre) / self.unit


class GradeNet(nn.Module):
    def __init__(self, c=16):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, c, 3, padding=1), nn.GroupNorm(4, c), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(c, 2 * c, 3, padding=1), nn.GroupNorm(4, 2 * c), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(2 * c, 2 * c, 3, padding=1), nn.ReLU(),
        )
        self.head = nn.Sequential(nn.Flatten(), nn.Dropout(0.3), nn.Linear(2 * c * 16, 48), nn.ReLU(), nn.Linear(48, 1))

    def forward(self, x):
        return self.head(self.features(x)).squeeze(1)


@torch.no_grad()
def mae(model, beans):
    model.eval()
    x, y = beans.val
    grade = model(x) * beans.unit + beans.centre
    return (grade - y).abs().mean().item()


def fit(beans, epochs, lr, batch):
    model = GradeNet()
    opt = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=0.01)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, epochs)
    for epoch in range(epochs):
        model.train()
        losses = []
        for xb, yb in beans.batches(batch):
            loss = nn.functional.smooth_l1_loss(model(xb), yb)
            opt.zero_grad()
            loss.backward()
            opt.step()
            losses.append(loss.item())
        sched.step()
        if epoch % 4 == 3:
            print(f"epoch {epoch + 1:2d}  loss {np.mean(losses):.4f}  val MAE {mae(model, beans):.3f}")
    return model


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--lr", type=float, default=1.5e-3)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--seed", type=int, default=2)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    beans = Beans(args.folder, seed=args.seed)
    model = fit(beans, args.epochs, args.lr, args.batch)
    print(f"validation MAE {mae(model, beans):.3f} grades")
