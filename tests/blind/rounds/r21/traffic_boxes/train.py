"""Single-vehicle localisation for a traffic camera: regress one box per frame."""
import glob
import json
import os
import sys

import numpy as np
import torch
import torch.nn as nn


class Annotations:
    """All box files of a folder; the reviewed frames are kept for validation."""

    def __init__(self, folder):
        self.train, self.val = {}, {}
        for path in sorted(glob.glob(os.path.join(folder, "boxes_*.json"))):
            with open(path) as f:
                book = json.load(f)
            part = self.val if book["annotator"] == "reviewed" else self.train
            for item in book["boxes"]:
                part[item["frame"]] = item["box"]

    def arrays(self, part, frames):
        ids = sorted(part)
        x = torch.from_numpy(frames[ids]).float().unsqueeze(1)
        boxes = torch.tensor([part[i] for i in ids], dtype=torch.float32) / frames.shape[-1]
        return x, boxes


class BoxNet(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv2d(1, 12, 3, padding=1), nn.BatchNorm2d(12), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(12, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        )
        self.fc = nn.Sequential(
            nn.Flatten(), nn.Linear(16 * (size // 4) ** 2, 96), nn.ReLU(), nn.Linear(96, 4), nn.Sigmoid(),
        )

    def forward(self, x):
        return self.fc(self.conv(x))


def mean_iou(a, b):
    """Boxes as corners (left, top, right, bottom)."""
    lo = torch.maximum(a[:, :2], b[:, :2])
    hi = torch.minimum(a[:, 2:], b[:, 2:])
    inter = (hi - lo).clamp(min=0).prod(1)
    area = lambda t: (t[:, 2:] - t[:, :2]).clamp(min=0).prod(1)
    return (inter / (area(a) + area(b) - inter + 1e-9)).mean().item()


def fit(model, x, boxes, xv, bv, epochs=7, batch=50, lr=3e-3):
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    history = []
    for epoch in range(epochs):
        model.train()
        total = 0.0
        for idx in torch.randperm(len(x)).split(batch):
            loss = nn.functional.mse_loss(model(x[idx]), boxes[idx])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(idx)
        scheduler.step()
        model.eval()
        with torch.no_grad():
            iou = mean_iou(model(xv), bv)
        history.append(iou)
        print(f"epoch {epoch + 1:2d}  loss {total / len(x):.5f}  val IoU {iou:.4f}")
    return history


def main():
    folder = sys.argv[1]
    torch.manual_seed(6)
    frames = np.load(os.path.join(folder, "frames.npy"))
    notes = Annotations(folder)
    x, boxes = notes.arrays(notes.train, frames)
    xv, bv = notes.arrays(notes.val, frames)
    mean, std = x.mean(), x.std()
    x, xv = (x - mean) / std, (xv - mean) / std
    print(f"{len(x)} annotated frames, {len(xv)} reviewed frames")
    history = fit(BoxNet(frames.shape[-1]), x, boxes, xv, bv)
    print(f"final val IoU {history[-1]:.4f}")


if __name__ == "__main__":
    main()
