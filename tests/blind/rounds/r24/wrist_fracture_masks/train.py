# Outline fractures of the distal radius in small wrist radiographs.
# First argument: folder with radiographs (npz), annotations (jsonl, run lengths) and segment.ini
import configparser
import json
import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

root = Path(sys.argv[1])
ini = configparser.ConfigParser()
ini.read(root / "segment.ini")
opts = ini["train"]


def decode(runs, shape):
    """Run lengths, alternating background and fracture, beginning with background."""
    flat = np.repeat(np.arange(len(runs)) % 2, runs)
    return flat.reshape(shape)


def load(images, annotations):
    films = np.load(root / images)["films"]
    x, m = [], []
    for name in annotations.split():
        for line in (root / name).read_text().splitlines():
            rec = json.loads(line)
            x.append(films[rec["film"]])
            m.append(decode(rec["runs"], films.shape[1:]))
    return np.stack(x).astype(np.float32), np.stack(m).astype(np.float32)


def block(a, b):
    return nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.GroupNorm(4, b), nn.SiLU(),
                         nn.Conv2d(b, b, 3, padding=1), nn.GroupNorm(4, b), nn.SiLU())


class SmallUNet(nn.Module):
    def __init__(self, w=8):
        super().__init__()
        self.e1, self.e2, self.e3 = block(1, w), block(w, 2 * w), block(2 * w, 4 * w)
        self.d2, self.d1 = block(6 * w, 2 * w), block(3 * w, w)
        self.last = nn.Conv2d(w, 1, 1)

    def forward(self, x):
        a = self.e1(x)
        b = self.e2(F.max_pool2d(a, 2))
        c = self.e3(F.max_pool2d(b, 2))
        b = self.d2(torch.cat([F.interpolate(c, scale_factor=2), b], 1))
        return self.last(self.d1(torch.cat([F.interpolate(b, scale_factor=2), a], 1)))


def soft_dice(logits, m):
    p = torch.sigmoid(logits)
    return 1 - (2 * (p * m).sum() + 1) / (p.sum() + m.sum() + 1)


@torch.no_grad()
def evaluate(net, x, m):
    net.eval()
    hit = torch.cat([net(b) for b in x.split(100)]) > 0
    both = (hit & (m > 0.5)).sum((1, 2, 3)).float()
    total = hit.sum((1, 2, 3)) + (m > 0.5).sum((1, 2, 3))
    return torch.where(total > 0, 2 * both / total.clamp(min=1), 1.0).mean().item()


torch.manual_seed(opts.getint("seed"))
x, m = load(ini["data"]["train_films"], ini["data"]["train_annotations"])
vx, vm = load(ini["data"]["valid_films"], ini["data"]["valid_annotations"])
mean, std = x.mean(), x.std()
x, vx = (torch.from_numpy((a - mean) / std)[:, None] for a in (x, vx))
m, vm = torch.from_numpy(m)[:, None], torch.from_numpy(vm)[:, None]
print(f"train {tuple(x.shape)}, fracture share {m.mean():.4f}; valid {tuple(vx.shape)}, fracture share {vm.mean():.4f}")

net = SmallUNet()
opt = torch.optim.AdamW(net.parameters(), lr=opts.getfloat("lr"), weight_decay=1e-3)
epochs, batch = opts.getint("epochs"), opts.getint("batch")
sched = torch.optim.lr_scheduler.OneCycleLR(opt, opts.getfloat("lr"), total_steps=epochs * -(-len(x) // batch))
for epoch in range(epochs):
    net.train()
    seen = []
    for idx in torch.randperm(len(x)).split(batch):
        xb, mb = x[idx], m[idx]
        if torch.rand(1) < 0.5:
            xb, mb = xb.flip(3), mb.flip(3)
        logits = net(xb + 0.05 * torch.randn_like(xb))
        loss = F.binary_cross_entropy_with_logits(logits, mb) + opts.getfloat("dice") * soft_dice(logits, mb)
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        seen.append(loss.item())
    print(f"epoch {epoch + 1:2d}  loss {np.mean(seen):.4f}  valid dice {evaluate(net, vx, vm):.3f}")
