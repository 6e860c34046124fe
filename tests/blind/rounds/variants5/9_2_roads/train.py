import argparse
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Tiles(Dataset):
    def __init__(self, folder, part, stats=None):
        names = (folder / f"{part}.txt").read_text().split()
        self.images = np.stack([np.load(folder / "images" / f"{n}.npy") for n in names]).astype(np.float32)
        self.masks = np.stack([np.load(folder / "masks" / f"{n}.npy") for n in names]).astype(np.float32)
        self.stats = stats or (self.images.mean((0, 1, 2)), self.images.std((0, 1, 2)))
        self.images = ((self.images - self.stats[0]) / self.stats[1]).transpose(0, 3, 1, 2)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        return {"image": torch.from_numpy(self.images[i]), "mask": torch.from_numpy(self.masks[i])}


class SmallUNet(nn.Module):
    def __init__(self, c_in, width):
        super().__init__()
        self.down1 = self.block(c_in, width)
        self.down2 = self.block(width, 2 * width)
        self.up = nn.ConvTranspose2d(2 * width, width, 2, stride=2)
        self.fuse = self.block(2 * width, width)
        self.out = nn.Conv2d(width, 1, 1)

    @staticmethod
    def block(i, o):
        return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU())

    def forward(self, image):
        a = self.down1(image)
        b = self.down2(F.max_pool2d(a, 2))
        return self.out(self.fuse(torch.cat([a, self.up(b)], 1))).squeeze(1)


def segmentation_loss(logits, mask):
    p = torch.sigmoid(logits)
    dice = 1 - (2 * (p * mask).sum((1, 2)) + 1) / (p.sum((1, 2)) + mask.sum((1, 2)) + 1)
    return F.binary_cross_entropy_with_logits(logits, mask) + dice.mean()


@torch.no_grad()
def iou(model, loader):
    model.eval()
    inter = union = 0.0
    for batch in loader:
        p, m = model(batch["image"]) > 0, batch["mask"] > 0.5
        inter += (p & m).sum().item()
        union += (p | m).sum().item()
    return inter / union


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("folder", type=Path)
    ap.add_argument("--epochs", type=int, default=9)
    ap.add_argument("--lr", type=float, default=3e-3)
    ap.add_argument("--width", type=int, default=10)
    args = ap.parse_args()
    torch.manual_seed(0)
    train = Tiles(args.folder, "train")
    sets = {"train": train, **{p: Tiles(args.folder, p, train.stats) for p in ("valid", "test")}}
    loaders = {p: DataLoader(s, batch_size=25, shuffle=p == "train") for p, s in sets.items()}
    model = SmallUNet(train.images.shape[1], args.width)
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    for epoch in range(args.epochs):
        model.train()
        total = 0.0
        for batch in loaders["train"]:
            loss = segmentation_loss(model(batch["image"]), batch["mask"])
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item()
        print(f"epoch {epoch + 1} loss {total / len(loaders['train']):.4f} valid iou {iou(model, loaders['valid']):.4f}")
    print(f"test iou {iou(model, loaders['test']):.4f}")


if __name__ == "__main__":
    main()
