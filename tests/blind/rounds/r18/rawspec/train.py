"""Mineral from Raman spectrum; goes on from the last campaign."""
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import nn


@dataclass
class Args:
    folder: Path
    lr: float = 1e-3
    epochs: int = 14
    batch: int = 50
    seed: int = 0


def prepare(a):
    a = torch.from_numpy(a)
    a = a - a.min(1, keepdim=True).values
    return (a - a.mean(1, keepdim=True)) / a.std(1, keepdim=True)


def resume(args, classes):
    net = nn.Sequential(nn.Linear(120, 64), nn.ReLU(), nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, classes))
    opt = torch.optim.AdamW(net.parameters(), lr=args.lr, weight_decay=0.02)
    ck = torch.load(args.folder / "last.pt")
    net.load_state_dict(ck["model"])
    opt.load_state_dict(ck["optimizer"])
    print(f"resumed after epoch {ck['epoch']} of {ck['campaign']}")
    return net, opt


def main(args):
    torch.manual_seed(args.seed)
    names = (args.folder / "minerals.txt").read_text().split()
    z = np.load(args.folder / "spectra.npz")
    x, y = prepare(z["train_x"]), torch.from_numpy(z["train_y"])
    xt, yt = prepare(z["test_x"]), torch.from_numpy(z["test_y"])
    net, opt = resume(args, len(names))
    for epoch in range(args.epochs):
        net.train()
        total = 0.0
        for b in torch.randperm(len(x)).split(args.batch):
            loss = nn.functional.cross_entropy(net(x[b]), y[b])
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(b)
        if epoch % 3 == 1:
            print(f"epoch {epoch} loss {total / len(x):.4f}")
    net.eval()
    with torch.no_grad():
        print(f"test accuracy {(net(xt).argmax(1) == yt).float().mean().item():.3f}")


main(Args(Path(sys.argv[1])))
