"""Classify scanned parts from point clouds, with jitter and rotation augmentation set in a config."""
import json
import math
import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn


class Augment:
    def __init__(self, jitter_sigma, max_yaw_deg):
        self.sigma, self.yaw = jitter_sigma, math.radians(max_yaw_deg)

    def __call__(self, clouds):
        a = (torch.rand(len(clouds)) * 2 - 1) * self.yaw
        rot = torch.zeros(len(clouds), 3, 3)
        rot[:, 0, 0], rot[:, 0, 1], rot[:, 1, 0], rot[:, 1, 1] = a.cos(), -a.sin(), a.sin(), a.cos()
        rot[:, 2, 2] = 1.0
        return clouds @ rot + self.sigma * torch.randn_like(clouds)


class CloudNet(nn.Module):
    def __init__(self, n_classes):
        super().__init__()
        self.point = nn.Sequential(nn.Linear(3, 32), nn.ReLU(), nn.Linear(32, 64))
        self.head = nn.Sequential(nn.Linear(128, 32), nn.ReLU(), nn.Linear(32, n_classes))

    def forward(self, clouds):
        f = self.point(clouds)
        return self.head(torch.cat([f.max(dim=1).values, f.mean(dim=1)], dim=1))


def load(path):
    with np.load(path) as z:
        p = torch.from_numpy(z["points"].astype(np.float32))
        y = torch.from_numpy(z["label"].astype(np.int64))
    p = p - p.mean(dim=1, keepdim=True)
    return p / p.norm(dim=2).amax(dim=1)[:, None, None], y


def main(folder):
    cfg = json.loads((folder / "config.json").read_text())
    torch.manual_seed(cfg["seed"])
    xt, yt = load(folder / "train.npz")
    xv, yv = load(folder / "val.npz")
    augment = Augment(cfg["augment"]["jitter_sigma"], cfg["augment"]["max_yaw_deg"])
    model = CloudNet(cfg["n_classes"])
    opt = torch.optim.AdamW(model.parameters(), lr=cfg["lr"], weight_decay=1e-3)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, cfg["epochs"])
    ce = nn.CrossEntropyLoss()
    for epoch in range(1, cfg["epochs"] + 1):
        model.train()
        losses = []
        for idx in torch.randperm(len(xt)).split(cfg["batch_size"]):
            loss = ce(model(augment(xt[idx])), yt[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            losses.append(loss.item())
        sched.step()
        if epoch % 5 == 0:
            model.eval()
            with torch.no_grad():
                logits = model(xv)
            acc = (logits.argmax(1) == yv).float().mean().item()
            print(f"epoch {epoch:2d} train loss {sum(losses) / len(losses):.3f} val loss {ce(logits, yv).item():.3f} val acc {acc:.3f}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
