import json
import sys

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

where = sys.argv[1]
meta = json.load(open(f"{where}/meta.json"))


def tiles(name):
    z = np.load(f"{where}/{name}")
    return torch.from_numpy(z["image"]).float()[:, None] / 255, torch.from_numpy(z["mask"]).float()[:, None]


def conv(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU(inplace=True))


class SmallUNet(nn.Module):
    def __init__(self, c=8):
        super().__init__()
        self.d1, self.d2 = conv(1, c), conv(c, 2 * c)
        self.mid = conv(2 * c, 2 * c)
        self.up = conv(3 * c, c)
        self.out = nn.Conv2d(c, 1, 1)

    def forward(self, x):
        a = self.d1(x)
        b = self.mid(self.d2(F.max_pool2d(a, 2)))
        b = F.interpolate(b, scale_factor=2, mode="nearest")
        return self.out(self.up(torch.cat([a, b], 1)))


def main():
    torch.manual_seed(4)
    x, m = tiles(meta["cache"])
    xt, mt = tiles("test.npz")
    mu, sd = x.mean(), x.std()
    net = SmallUNet()
    opt = torch.optim.Adam(net.parameters(), lr=3e-3)
    w = torch.tensor(meta["positive_weight"])
    for epoch in range(8):
        net.train()
        tot = 0.0
        for i in torch.randperm(len(x)).split(20):
            loss = F.binary_cross_entropy_with_logits(net((x[i] - mu) / sd), m[i], pos_weight=w)
            opt.zero_grad()
            loss.backward()
            opt.step()
            tot += loss.item() * len(i)
        print(f"epoch {epoch} loss {tot / len(x):.4f}")
    net.eval()
    with torch.no_grad():
        p = net((xt - mu) / sd) > 0
    t = mt > 0.5
    inter, union = (p & t).sum().item(), (p | t).sum().item()
    print(f"crack pixels: test IoU {inter / max(union, 1):.4f}, found {p.sum().item()} of {t.sum().item()}")


main()
