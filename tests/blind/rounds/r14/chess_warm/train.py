"""Train the puzzle evaluator from run.json."""
import json
import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn


def build_model(width, depth, n_in=18):
    layers = [nn.Linear(n_in, width), nn.GELU()]
    for _ in range(depth - 1):
        layers += [nn.Linear(width, width), nn.GELU()]
    layers.append(nn.Linear(width, 2))
    return nn.Sequential(*layers)


def lr_factor(cfg):
    warm, total = cfg["warmup_steps"], cfg["total_steps"]

    def factor(step):
        if step < warm:
            return (step + 1) / warm
        return max(0.0, (total - step) / max(1, total - warm))

    return factor


def endless(x, y, size):
    while True:
        for idx in torch.randperm(len(x)).split(size):
            yield x[idx], y[idx]


def load(path):
    with np.load(path) as z:
        return torch.from_numpy(z["x"]).float(), torch.from_numpy(z["y"])


def main(home):
    cfg = json.loads((home / "run.json").read_text())
    torch.manual_seed(cfg["seed"])
    x, y = load(home / "train.npz")
    x_test, y_test = load(home / "test.npz")
    model = build_model(**cfg["model"])
    oc = cfg["optim"]
    opt = torch.optim.AdamW(model.parameters(), lr=oc["lr"], weight_decay=oc["weight_decay"])
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lr_factor(oc))
    stream = endless(x, y, cfg["batch_size"])
    smooth = None
    for step in range(oc["total_steps"]):
        xb, yb = next(stream)
        loss = nn.functional.cross_entropy(model(xb), yb)
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        smooth = loss.item() if smooth is None else 0.95 * smooth + 0.05 * loss.item()
        if (step + 1) % 175 == 0:
            print(f"step {step + 1} loss {smooth:.4f}")
    model.eval()
    with torch.no_grad():
        print(f"test accuracy {(model(x_test).argmax(1) == y_test).float().mean():.3f}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
