"""Handwritten digits on scanned forms: small CNN with random erasing (stamps, folds)."""
import os
import gzip
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

ROOT = os.environ["TRUELOOP_DATA"] + "/mnist/"
CFG = dict(n_train=1400, n_val=800, batch=40, epochs=8, lr=3e-3, patch=9, seed=1)


def read_idx(name, skip):
    with gzip.open(ROOT + name, "rb") as f:
        return np.frombuffer(f.read(), np.uint8, offset=skip)


class FormDigits(Dataset):
    def __init__(self, images, labels, patch=0):
        self.images = images
        self.labels = labels
        self.patch = patch

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        img = self.images[i].clone()
        if self.patch and random.random() < 0.8:
            r = random.randint(0, 28 - self.patch)
            c = random.randint(0, 28 - self.patch)
            img[:, r:r + self.patch, c:c + self.patch] = 0.0
        return img, self.labels[i]


class DigitNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 3, padding=1)
        self.conv2 = nn.Conv2d(6, 12, 3, padding=1)
        self.fc1 = nn.Linear(12 * 49, 48)
        self.fc2 = nn.Linear(48, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = F.relu(self.fc1(x.flatten(1)))
        return self.fc2(x)


@torch.no_grad()
def evaluate(net, loader):
    net.eval()
    right = total = 0
    for x, y in loader:
        right += (net(x).argmax(1) == y).sum().item()
        total += len(y)
    return right / total


def main():
    random.seed(CFG["seed"])
    torch.manual_seed(CFG["seed"])
    raw = read_idx("t10k-images-idx3-ubyte.gz", 16).reshape(-1, 1, 28, 28)
    lab = read_idx("t10k-labels-idx1-ubyte.gz", 8)
    pick = torch.randperm(len(lab))[:CFG["n_train"] + CFG["n_val"]].numpy()
    images = torch.tensor(raw[pick], dtype=torch.float32) / 255
    labels = torch.tensor(lab[pick], dtype=torch.long)
    n = CFG["n_train"]
    train = FormDigits(images[:n], labels[:n], patch=CFG["patch"])
    val = FormDigits(images[n:], labels[n:])
    train_dl = DataLoader(train, batch_size=CFG["batch"], shuffle=True)
    val_dl = DataLoader(val, batch_size=200)

    net = DigitNet()
    opt = torch.optim.Adam(net.parameters(), lr=CFG["lr"])
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=CFG["epochs"] * len(train_dl))
    for ep in range(CFG["epochs"]):
        net.train()
        tot = 0.0
        for x, y in train_dl:
            loss = F.cross_entropy(net(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            sched.step()
            tot += loss.item() * len(y)
        print(f"epoch {ep} train loss {tot / len(train):.4f} val acc {evaluate(net, val_dl):.4f}")


if __name__ == "__main__":
    main()
