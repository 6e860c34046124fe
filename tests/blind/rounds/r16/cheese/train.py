"""Cheese variety from the aroma sensor array; everything adjustable sits in config.json."""
import json
import sys
from pathlib import Path
from types import SimpleNamespace
import numpy as np
import torch
import torch.nn as nn


def build(cfg, n_in, n_out):
    mods, width = [], n_in
    for _ in range(cfg.layers):
        mods += [nn.Linear(width, cfg.hidden), nn.ReLU(), nn.Dropout(cfg.dropout)]
        width = cfg.hidden
    return nn.Sequential(*mods, nn.Linear(width, n_out))


def evaluate(net, x, y):
    net.eval()
    with torch.no_grad():
        scores = net(x)
    net.train()
    return nn.functional.cross_entropy(scores, y).item(), (scores.argmax(1) == y).float().mean().item()


def main(folder):
    cfg = SimpleNamespace(**json.loads((folder / "config.json").read_text()))
    torch.manual_seed(cfg.seed)
    data = np.load(folder / "aroma.npz")
    x, y = torch.from_numpy(data["x"]), torch.from_numpy(data["y"])
    cut = int(cfg.train_share * len(x))
    xa, ya, xb, yb = x[:cut], y[:cut], x[cut:], y[cut:]
    net = build(cfg, x.shape[1], int(y.max()) + 1)
    opt = torch.optim.Adam(net.parameters(), lr=cfg.lr)
    for epoch in range(cfg.epochs):
        for rows in torch.randperm(cut).split(cfg.batch_size):
            opt.zero_grad()
            loss = nn.functional.cross_entropy(net(xa[rows]), ya[rows])
            loss.backward()
            opt.step()
        if epoch % 3 == 2:
            vl, va = evaluate(net, xb, yb)
            print(f"epoch {epoch + 1} train {loss.item():.3f} held-out {vl:.3f} accuracy {va:.3f}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
