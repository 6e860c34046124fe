"""Locate the parcel: regress box corners (x1, y1, x2, y2)."""
import argparse
import json
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

SIZE = 20


def load(folder, part):
    imgs = torch.from_numpy(np.load(folder / f"{part}.npy").astype(np.float32)).unsqueeze(1)
    boxes = torch.tensor([a["box"] for a in json.loads((folder / f"{part}.json").read_text())]).float() / SIZE
    return imgs, boxes


class BoxNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.AvgPool2d(2))
        self.regress = nn.Sequential(nn.Flatten(), nn.Linear(8 * 100, 64), nn.ReLU(), nn.Linear(64, 4))

    def forward(self, x):
        return torch.sigmoid(self.regress(self.features(x)))


def pair_iou(a, b):
    lt, rb = torch.maximum(a[:, :2], b[:, :2]), torch.minimum(a[:, 2:], b[:, 2:])
    inter = (rb - lt).clamp(min=0).prod(1)
    area = lambda t: (t[:, 2:] - t[:, :2]).clamp(min=0).prod(1)
    return inter / (area(a) + area(b) - inter).clamp(min=1e-6)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--epochs", type=int, default=12)
    args = parser.parse_args()
    torch.manual_seed(0)
    parts = [load(args.folder, p) for p in ("team_a", "team_b")]
    imgs, boxes = (torch.cat(t) for t in zip(*parts))
    test_imgs, test_boxes = load(args.folder, "test")
    net = BoxNet()
    opt = torch.optim.Adam(net.parameters(), lr=2e-3)
    for epoch in range(1, args.epochs + 1):
        net.train()
        total = 0.0
        for idx in torch.randperm(len(imgs)).split(40):
            loss = F.smooth_l1_loss(net(imgs[idx]), boxes[idx], beta=0.05)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(idx)
        if epoch % 4 == 0:
            print(f"epoch {epoch}: box loss {total / len(imgs):.4f}")
    net.eval()
    with torch.no_grad():
        print(f"mean test IoU {pair_iou(net(test_imgs), test_boxes).mean():.3f}")


if __name__ == "__main__":
    main()
