"""Water segmentation in single-band satellite chips. Unlabelled shoreline pixels carry 255 in the masks."""
import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

CLASSES = ("land", "water")
UNLABELLED = 255


def load_chips(path):
    with np.load(path) as z:
        image = torch.from_numpy(z["image"]).float().unsqueeze(1) / 255.0
        mask = torch.from_numpy(z["mask"]).long()
    return TensorDataset(image, mask)


class EncoderDecoder(nn.Module):
    def __init__(self, width=10):
        super().__init__()
        self.enc1 = nn.Sequential(nn.Conv2d(1, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU())
        self.enc2 = nn.Sequential(nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU())
        self.dec = nn.Sequential(nn.Conv2d(2 * width, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU())
        self.out = nn.Conv2d(width, len(CLASSES), 1)

    def forward(self, x):
        a = self.enc1(x)
        b = F.interpolate(self.enc2(F.max_pool2d(a, 2)), scale_factor=2)
        return self.out(self.dec(torch.cat([a, b], 1)))


def confusion(pred, mask):
    keep = mask != UNLABELLED
    flat = mask[keep] * len(CLASSES) + pred[keep]
    return torch.bincount(flat, minlength=len(CLASSES) ** 2).view(len(CLASSES), -1)


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    conf = torch.zeros(len(CLASSES), len(CLASSES), dtype=torch.long)
    water, pixels = 0, 0
    for image, mask in loader:
        pred = model(image).argmax(1)
        conf += confusion(pred, mask)
        water += (pred == 1).sum().item()
        pixels += pred.numel()
    accuracy = conf.diag().sum().item() / conf.sum().item()
    union = conf.sum(0) + conf.sum(1) - conf.diag()
    iou = (conf.diag().float() / union.clamp(min=1)).tolist()
    return accuracy, iou, water / pixels


def main(folder):
    torch.manual_seed(40)
    folder = Path(folder)
    train_set, valid_set = load_chips(folder / "train.npz"), load_chips(folder / "valid.npz")
    train_loader = DataLoader(train_set, batch_size=20, shuffle=True)
    valid_loader = DataLoader(valid_set, batch_size=50)
    model = EncoderDecoder()
    loss_fn = nn.CrossEntropyLoss(ignore_index=UNLABELLED)
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    for epoch in range(10):
        model.train()
        total = 0.0
        for image, mask in train_loader:
            loss = loss_fn(model(image), mask)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item()
        acc, iou, share = evaluate(model, valid_loader)
        print(f"epoch {epoch}  loss {total / len(train_loader):.4f}  pixel acc {acc:.4f}  "
              f"IoU land {iou[0]:.4f} water {iou[1]:.4f}  predicted water {share:.1%}")


if __name__ == "__main__":
    main(sys.argv[1])
