import json
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn

HERE = Path(__file__).parent
S = 16
SHAPES = ["none", "disc", "ring", "rise", "fall", "checker", "cross", "bar", "corner"]
TARGET = {"healthy": "none", "scab": "disc", "ring spot": "ring", "canker": "rise", "mosaic": "checker"}


def leaf(rng, shape):
    yy, xx = np.mgrid[:S, :S]
    base = np.array([.25, .5, .2]) * rng.uniform(.6, 1.5) + rng.normal(0, .07, 3)
    slope = rng.normal(0, .15, 2)
    light = 1 + slope[0] * (xx / S - .5) + slope[1] * (yy / S - .5)
    img = base * light[..., None]
    ang = rng.uniform(0, np.pi)
    img += .06 * np.sin((np.cos(ang) * xx + np.sin(ang) * yy) * rng.uniform(.6, 1.4))[..., None]
    cx, cy, r = rng.uniform(4.5, 10.5), rng.uniform(4.5, 10.5), rng.uniform(2.5, 4)
    dx, dy = xx - cx, yy - cy
    d = np.hypot(dx, dy)
    near = np.maximum(abs(dx), abs(dy)) < r + .7
    m = {"none": d < 0, "disc": d < r * .8, "ring": abs(d - r) < .8, "rise": (abs(dx + dy) < 1.3) & near,
         "fall": (abs(dx - dy) < 1.3) & near, "checker": ((xx // 2 + yy // 2) % 2 == 0) & near,
         "cross": ((abs(dx) < .8) | (abs(dy) < .8)) & near, "bar": (abs(dx) < 1.1) & near,
         "corner": ((abs(dx + r) < .9) | (abs(dy + r) < .9)) & near}[shape]
    img = img + m[..., None] * (rng.choice([-1, 1]) * rng.uniform(.12, .3) + rng.normal(0, .07, 3))
    img += rng.normal(0, .045, img.shape)
    return (img.clip(0, 1) * 255).astype(np.uint8)


def block(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU(), nn.MaxPool2d(2))


class Net(nn.Module):
    def __init__(self, n_classes):
        super().__init__()
        self.encoder = nn.Sequential(block(3, 16), block(16, 32), block(32, 64))
        self.head = nn.Linear(64, n_classes)

    def forward(self, x):
        return self.head(self.encoder(x).mean((2, 3)))


def pretrain(rng):
    y = rng.integers(len(SHAPES), size=6000)
    x = np.stack([leaf(rng, SHAPES[k]) for k in y])
    x = torch.from_numpy(x).permute(0, 3, 1, 2).float() / 255
    x, y = (x - .4) / .2, torch.from_numpy(y)
    net = Net(len(SHAPES))
    opt = torch.optim.AdamW(net.parameters(), lr=3e-3)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, 6e-3, total_steps=12 * 60)
    for _ in range(12):
        for idx in torch.randperm(len(x)).split(100):
            loss = nn.functional.cross_entropy(net(x[idx]), y[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            sched.step()
    print("pretraining loss", loss.item())
    return net.eval().state_dict()


def main():
    torch.manual_seed(0)
    rng = np.random.default_rng(12)
    names = list(TARGET)
    y = np.concatenate([rng.permutation(np.repeat(np.arange(5), 24)), rng.integers(5, size=600)])
    x = np.stack([leaf(rng, TARGET[names[k]]) for k in y])
    state = pretrain(rng)
    for side in ("bug", "ok"):
        folder = HERE / side
        folder.mkdir(exist_ok=True)
        for part, sl in (("train", slice(0, 120)), ("val", slice(120, None))):
            np.save(folder / f"{part}_images.npy", x[sl])
            (folder / f"{part}_labels.txt").write_text("\n".join(names[k] for k in y[sl]) + "\n")
        prefix = "module." if side == "bug" else ""
        torch.save({"epoch": 12, "state_dict": {prefix + k: v for k, v in state.items()}}, folder / "leafnet.pt")
        (folder / "options.json").write_text(json.dumps({
            "checkpoint": "leafnet.pt", "epochs": 40, "batch_size": 24, "lr_encoder": 1e-4, "lr_head": 5e-3,
            "mean": .4, "std": .2, "seed": 6}, indent=2) + "\n")


main()
