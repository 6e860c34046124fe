# Glacier outlines from satellite tiles: a small U-Net, binary mask (1 = ice).
import json
import os
import sys

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class TileSet:
    def __init__(self, root, split, stats=None):
        with open(os.path.join(root, "split.json")) as f:
            index = json.load(f)[split]
        images = torch.from_numpy(np.load(os.path.join(root, "images.npy"))[index]).float() / 255
        masks = np.load(os.path.join(root, "masks.npy"))[index]
        if stats is None:
            stats = images.mean((0, 2, 3), keepdim=True), images.std((0, 2, 3), keepdim=True)
        self.stats = stats
        self.images = (images - stats[0]) / stats[1]
        self.masks = torch.from_numpy((masks == 1).astype(np.float32))

    def __len__(self):
        return len(self.images)

    def batches(self, size):
        """Shuffled batches, each flipped at random in both directions."""
        for idx in torch.randperm(len(self)).split(size):
            x, m = self.images[idx], self.masks[idx]
            for axis in (1, 2):
                if torch.rand(()) < 0.5:
                    x, m = x.flip(axis + 1), m.flip(axis)
            yield x, m


def double_conv(cin, cout):
    return nn.Sequential(
        nn.Conv2d(cin, cout, 3, padding=1, bias=False), nn.BatchNorm2d(cout), nn.ReLU(),
        nn.Conv2d(cout, cout, 3, padding=1, bias=False), nn.BatchNorm2d(cout), nn.ReLU())


class SmallUNet(nn.Module):
    def __init__(self, bands=3, width=8):
        super().__init__()
        self.down1 = double_conv(bands, width)
        self.down2 = double_conv(width, 2 * width)
        self.bottom = double_conv(2 * width, 2 * width)
        self.up2 = double_conv(4 * width, width)
        self.up1 = double_conv(2 * width, width)
        self.out = nn.Conv2d(width, 1, 1)

    def forward(self, x):
        a = self.down1(x)
        b = self.down2(F.max_pool2d(a, 2))
        c = self.bottom(F.max_pool2d(b, 2))
        b = self.up2(torch.cat([b, F.interpolate(c, scale_factor=2)], 1))
        a = self.up1(torch.cat([a, F.interpolate(b, scale_factor=2)], 1))
        return self.out(a).squeeze(1)


@torch.no_grad()
def evaluate(net, tiles):
    net.eval()
    logits = net(tiles.images)
    pred, true = logits > 0, tiles.masks > 0.5
    iou = (pred & true).sum().item() / max((pred | true).sum().item(), 1)
    return F.binary_cross_entropy_with_logits(logits, tiles.masks).item(), iou


def main(root, epochs=12, batch=16, lr=4e-3):
    torch.manual_seed(12)
    train = TileSet(root, "train")
    val = TileSet(root, "val", train.stats)
    net = SmallUNet()
    opt = torch.optim.AdamW(net.parameters(), lr=lr, weight_decay=1e-3)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, epochs)
    for epoch in range(epochs):
        net.train()
        losses = []
        for x, m in train.batches(batch):
            loss = F.binary_cross_entropy_with_logits(net(x), m)
            opt.zero_grad()
            loss.backward()
            opt.step()
            losses.append(loss.item())
        sched.step()
        val_loss, iou = evaluate(net, val)
        print(f"epoch {epoch + 1:2d}  loss {np.mean(losses):.4f}  val loss {val_loss:.4f}  val IoU {iou:.3f}")
    return net, train.stats


if __name__ == "__main__":
    main(sys.argv[1])
