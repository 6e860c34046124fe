"""Keypoint regression with visibility weights (COCO-style x, y, v triples).

usage: python train.py FOLDER     (FOLDER: train.npz, valid.npz with `images` and `keypoints`)
"""
import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

NAMES = ["nose", "left_eye", "right_eye", "mouth"]


class FaceKeypoints(Dataset):
    def __init__(self, path):
        blob = np.load(path)
        self.images = torch.from_numpy(blob["images"]).float().unsqueeze(1) / 255
        triples = torch.from_numpy(blob["keypoints"]).float().view(len(self.images), len(NAMES), 3)
        self.side = self.images.shape[-1]
        self.xy = triples[..., :2] / self.side
        self.visible = (triples[..., 2] > 0).float()

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        return self.images[i], self.xy[i], self.visible[i]


class KeypointNet(nn.Module):
    def __init__(self, k):
        super().__init__()
        self.trunk = nn.Sequential(
            nn.Conv2d(1, 12, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(12, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
            nn.Linear(16 * 16, 64), nn.ReLU())
        self.head = nn.Linear(64, 2 * k)
        self.k = k

    def forward(self, x):
        return self.head(self.trunk(x)).view(-1, self.k, 2)


def masked_mse(pred, xy, visible):
    sq = (pred - xy).pow(2).sum(-1)
    return (sq * visible).sum() / visible.sum().clamp(min=1)


@torch.no_grad()
def evaluate(net, loader, side):
    net.eval()
    err, seen = torch.zeros(len(NAMES)), torch.zeros(len(NAMES))
    for img, xy, vis in loader:
        err += ((net(img) - xy).norm(dim=-1) * vis).sum(0) * side
        seen += vis.sum(0)
    return err / seen


def main(folder):
    torch.manual_seed(4)
    train, valid = FaceKeypoints(folder / "train.npz"), FaceKeypoints(folder / "valid.npz")
    train_loader = DataLoader(train, batch_size=32, shuffle=True)
    valid_loader = DataLoader(valid, batch_size=100)
    net = KeypointNet(len(NAMES))
    opt = torch.optim.Adam(net.parameters(), lr=3e-3)
    epochs = 14
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, epochs)
    for epoch in range(1, epochs + 1):
        net.train()
        total = 0.0
        for img, xy, vis in train_loader:
            loss = masked_mse(net(img), xy, vis)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item()
        sched.step()
        err = evaluate(net, valid_loader, valid.side)
        print(f"epoch {epoch:2d}  loss {total / len(train_loader):.5f}  val error {err.mean():.3f} px")
    print("per keypoint: " + "  ".join(f"{n} {e:.2f}" for n, e in zip(NAMES, err.tolist())))
    print(f"final val error {err.mean():.3f} px")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
