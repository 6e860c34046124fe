import os
import sys

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from PIL import Image
from torch.utils.data import DataLoader, Dataset, Subset

DATA = sys.argv[1]
torch.manual_seed(2)
np.random.seed(2)


class CrackDataset(Dataset):
    def __init__(self, folder, augment=False):
        self.augment = augment
        self.names = sorted(os.listdir(os.path.join(folder, "images")))
        self.images = [self._read(folder, "images", n) for n in self.names]
        self.masks = [self._read(folder, "masks", n) for n in self.names]

    @staticmethod
    def _read(folder, kind, name):
        arr = np.asarray(Image.open(os.path.join(folder, kind, name)).convert("L"), dtype=np.float32)
        return torch.from_numpy(arr / 255.0).unsqueeze(0)

    def __len__(self):
        return len(self.names)

    def __getitem__(self, i):
        x, m = self.images[i], self.masks[i]
        if self.augment:
            if np.random.rand() < 0.5:
                x, m = x.flip(-1), m.flip(-1)
            if np.random.rand() < 0.5:
                x, m = x.flip(-2), m.flip(-2)
            if np.random.rand() < 0.5:
                x, m = x.transpose(-1, -2), m.transpose(-1, -2)
        return (x - 0.55) / 0.1, (m > 0.5).float()


def double_conv(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU(inplace=True),
                         nn.Conv2d(o, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU(inplace=True))


class TinyUNet(nn.Module):
    def __init__(self, w=8):
        super().__init__()
        self.d1, self.d2, self.d3 = double_conv(1, w), double_conv(w, 2 * w), double_conv(2 * w, 4 * w)
        self.u2 = double_conv(6 * w, 2 * w)
        self.u1 = double_conv(3 * w, w)
        self.out = nn.Conv2d(w, 1, 1)

    def forward(self, x):
        a = self.d1(x)
        b = self.d2(F.max_pool2d(a, 2))
        c = self.d3(F.max_pool2d(b, 2))
        b = self.u2(torch.cat([b, F.interpolate(c, scale_factor=2)], 1))
        a = self.u1(torch.cat([a, F.interpolate(b, scale_factor=2)], 1))
        return self.out(a)


def bce_dice(logits, target):
    p = torch.sigmoid(logits)
    inter = (p * target).sum((1, 2, 3))
    dice = 1 - (2 * inter + 1) / (p.sum((1, 2, 3)) + target.sum((1, 2, 3)) + 1)
    return F.binary_cross_entropy_with_logits(logits, target) + dice.mean()


@torch.no_grad()
def iou(model, loader):
    model.eval()
    inter = union = 0
    for x, m in loader:
        pred = model(x) > 0
        m = m > 0.5
        inter += (pred & m).sum().item()
        union += (pred | m).sum().item()
    return inter / max(union, 1)


order = np.random.permutation(len(os.listdir(os.path.join(DATA, "train", "images"))))
cut = int(0.85 * len(order))
train_ds = Subset(CrackDataset(os.path.join(DATA, "train"), augment=True), order[:cut].tolist())
val_ds = Subset(CrackDataset(os.path.join(DATA, "train")), order[cut:].tolist())
test_ds = CrackDataset(os.path.join(DATA, "test"))
train_dl = DataLoader(train_ds, batch_size=8, shuffle=True, drop_last=True)
val_dl, test_dl = DataLoader(val_ds, batch_size=32), DataLoader(test_ds, batch_size=32)

net = TinyUNet()
EPOCHS = 10
opt = torch.optim.AdamW(net.parameters(), lr=4e-3, weight_decay=1e-4)
sched = torch.optim.lr_scheduler.OneCycleLR(opt, 8e-3, total_steps=EPOCHS * len(train_dl))
for epoch in range(EPOCHS):
    net.train()
    total = 0.0
    for x, m in train_dl:
        loss = bce_dice(net(x), m)
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        total += loss.item()
    print(f"[{epoch + 1:02d}/{EPOCHS}] loss {total / len(train_dl):.3f} val IoU {iou(net, val_dl):.3f}")
print(f"test_iou {iou(net, test_dl):.4f}")
