"""Building change detection in pairs of aerial tiles: shared encoder, difference decoder."""
import csv
import json

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset


class TilePairs(Dataset):
    """index.csv says which row of each stack belongs to a tile."""

    def __init__(self, split):
        self.before = np.load("before.npy", mmap_mode="r")
        self.after = np.load("after.npy", mmap_mode="r")
        self.masks = np.load("masks.npy", mmap_mode="r")
        with open("index.csv", newline="") as f:
            self.rows = [r for r in csv.DictReader(f) if r["split"] == split]

    def __len__(self):
        return len(self.rows)

    @staticmethod
    def image(stack, i):
        return torch.from_numpy(stack[i].astype(np.float32) / 127.5 - 1.0)[None]

    def __getitem__(self, k):
        r = self.rows[k]
        return {"before": self.image(self.before, int(r["before_row"])),
                "after": self.image(self.after, int(r["after_row"])),
                "mask": torch.from_numpy(self.masks[int(r["mask_row"])].astype(np.float32))}


class ChangeNet(nn.Module):
    def __init__(self, width=12):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(1, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1), nn.ReLU(),
        )
        self.decoder = nn.Sequential(
            nn.Conv2d(2 * width, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, 1, 3, padding=1),
        )

    def forward(self, before, after):
        fa, fb = self.encoder(torch.cat([before, after])).chunk(2)
        return self.decoder(torch.cat([fb - fa, (fb - fa).abs()], dim=1)).squeeze(1)


def dice_loss(logits, mask):
    p = torch.sigmoid(logits)
    inter = (p * mask).sum()
    return 1 - (2 * inter + 1) / (p.sum() + mask.sum() + 1)


def objective(logits, mask):
    return F.binary_cross_entropy_with_logits(logits, mask) + dice_loss(logits, mask)


@torch.no_grad()
def validate(model, loader):
    model.eval()
    inter = union = 0.0
    losses = []
    for batch in loader:
        logits = model(batch["before"], batch["after"])
        losses.append(objective(logits, batch["mask"]).item())
        pred, true = logits > 0, batch["mask"] > 0.5
        inter += (pred & true).sum().item()
        union += (pred | true).sum().item()
    return np.mean(losses), inter / max(union, 1)


def main():
    with open("opts.json") as f:
        opts = json.load(f)
    torch.manual_seed(opts["seed"])
    train, valid = TilePairs("train"), TilePairs("valid")
    share = np.mean([train[i]["mask"].mean().item() for i in range(0, len(train), 10)])
    print(f"{len(train)} train pairs, {len(valid)} validation pairs, changed pixels {share:.3f}")
    train_loader = DataLoader(train, batch_size=opts["batch_size"], shuffle=True, drop_last=True, num_workers=0)
    valid_loader = DataLoader(valid, batch_size=50, num_workers=0)
    model = ChangeNet()
    opt = torch.optim.Adam(model.parameters(), lr=opts["lr"])
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, opts["epochs"])
    best = 0.0
    for epoch in range(1, opts["epochs"] + 1):
        model.train()
        losses = []
        for batch in train_loader:
            opt.zero_grad()
            loss = objective(model(batch["before"], batch["after"]), batch["mask"])
            loss.backward()
            opt.step()
            losses.append(loss.item())
        sched.step()
        val_loss, iou = validate(model, valid_loader)
        if iou > best:
            best = iou
            torch.save(model.state_dict(), "best.pt")
        print(f"epoch {epoch:2d}  train loss {np.mean(losses):.4f}  val loss {val_loss:.4f}  val IoU {iou:.4f}")
    print(f"best val IoU {best:.4f}")


if __name__ == "__main__":
    main()
