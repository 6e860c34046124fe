# Casting inspection camera: blowhole (scrap) or good part.
# Trained on the early shift, validated on the late shift.
import os
import sys

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class PartNet(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.c1 = nn.Conv2d(1, width, 3, padding=1)
        self.c2 = nn.Conv2d(width, width, 3, padding=1)
        self.fc = nn.Linear(width * 49, 48)
        self.out = nn.Linear(48, 2)

    def forward(self, x):
        x = F.relu(self.c1(x))
        x = F.max_pool2d(F.relu(self.c2(x)), 2)
        return self.out(F.relu(self.fc(x.flatten(1))))


def load_shift(folder, name):
    d = np.load(os.path.join(folder, name))
    x = torch.from_numpy(d["images"].astype(np.float32)).unsqueeze(1)
    return x, torch.from_numpy(d["scrap"].astype(np.int64))


def report(net, x, y):
    net.eval()
    with torch.no_grad():
        logits = net(x)
    pred = logits.argmax(1)
    escape = ((pred == 0) & (y == 1)).sum().item() / max(1, (y == 1).sum().item())
    return F.cross_entropy(logits, y).item(), (pred == y).float().mean().item(), escape


def main(folder):
    torch.manual_seed(17)
    x, y = load_shift(folder, "shift_early.npz")
    xv, yv = load_shift(folder, "shift_late.npz")
    mean, std = x.mean(), x.std()
    x, xv = (x - mean) / std, (xv - mean) / std
    net = PartNet()
    opt = torch.optim.Adam(net.parameters(), lr=1.5e-3)
    for epoch in range(9):
        net.train()
        total = 0.0
        for idx in torch.randperm(len(x)).split(30):
            loss = F.cross_entropy(net(x[idx]), y[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(idx)
        val_loss, acc, escape = report(net, xv, yv)
        print(f"epoch {epoch} train loss {total / len(x):.3f} val loss {val_loss:.3f} "
              f"val acc {acc:.3f} escape rate {escape:.3f}")


if __name__ == "__main__":
    main(sys.argv[1])
