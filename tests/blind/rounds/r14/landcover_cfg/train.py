"""Land cover segmentation, everything adjustable sits in config.json."""
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch
import torch.nn as nn


def load_config(folder):
    return SimpleNamespace(**json.loads((folder / "config.json").read_text()))


def load_strips(folder, part):
    with np.load(folder / f"{part}.npz") as z:
        return torch.from_numpy(z["img"]), torch.from_numpy(z["mask"])


def conv_block(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU(inplace=True))


class CoverNet(nn.Module):
    def __init__(self, n_classes):
        super().__init__()
        self.enc = nn.Sequential(conv_block(3, 12), conv_block(12, 12))
        self.head = nn.Conv2d(12, n_classes, 1)

    def forward(self, x):
        return self.head(self.enc(x))


@torch.no_grad()
def mean_iou(net, img, mask, scored):
    net.eval()
    valid = torch.isin(mask, torch.tensor(scored))
    logits = net(img)[:, scored]
    pred = torch.tensor(scored)[logits.argmax(1)]
    ious = []
    for c in scored:
        inter = ((pred == c) & (mask == c) & valid).sum().item()
        union = (((pred == c) | (mask == c)) & valid).sum().item()
        ious.append(inter / max(union, 1))
    return sum(ious) / len(ious), ious


def main(folder):
    cfg = load_config(folder)
    torch.manual_seed(18)
    img, mask = load_strips(folder, "train")
    net = CoverNet(len(cfg.classes))
    criterion = nn.CrossEntropyLoss(**cfg.loss)
    opt = torch.optim.Adam(net.parameters(), lr=cfg.lr)
    for epoch in range(cfg.epochs):
        net.train()
        total = 0.0
        chunks = torch.randperm(len(img)).split(cfg.batch)
        for idx in chunks:
            loss = criterion(net(img[idx]), mask[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item()
        print(f"epoch {epoch + 1}/{cfg.epochs} loss {total / len(chunks):.4f}")
    miou, _ = mean_iou(net, *load_strips(folder, "test"), cfg.scored)
    print(f"test mIoU {miou:.3f}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
