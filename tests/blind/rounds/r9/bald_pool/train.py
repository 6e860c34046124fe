"""Active learning: Monte Carlo dropout, variation-ratio acquisition, model refit after each query."""
import json
import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


def load(path):
    data = np.load(path)
    x = torch.from_numpy(data["x"].astype(np.float32) / 255.0)
    return (x - 0.13) / 0.25, torch.from_numpy(data["y"].astype(np.int64))


def build(cfg):
    h, p = cfg["hidden"], cfg["dropout"]
    return nn.Sequential(nn.Linear(49, h), nn.ReLU(), nn.Dropout(p), nn.Linear(h, h), nn.ReLU(), nn.Dropout(p),
                         nn.Linear(h, 10))


def fit(cfg, x, y):
    model = build(cfg)
    opt = torch.optim.AdamW(model.parameters(), lr=cfg["lr"], weight_decay=1e-2)
    model.train()
    for _ in range(cfg["epochs"]):
        total = 0.0
        for idx in torch.randperm(len(y)).split(16):
            loss = F.cross_entropy(model(x[idx]), y[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(idx)
    return model, total / len(y)


@torch.no_grad()
def variation_ratio(model, x, passes):
    """Share of stochastic forward passes that disagree with the most frequent answer."""
    model.train()
    votes = torch.stack([F.one_hot(model(x).argmax(1), 10) for _ in range(passes)]).sum(0)
    model.eval()
    return 1.0 - votes.max(1).values.float() / passes


@torch.no_grad()
def test_accuracy(model, x, y):
    model.eval()
    return (model(x).argmax(1) == y).float().mean().item()


def main():
    folder = Path(sys.argv[1])
    cfg = json.loads((folder / "settings.json").read_text())
    torch.manual_seed(cfg["seed"])
    pool_x, pool_y = load(folder / "pool.npz")
    test_x, test_y = load(folder / "test.npz")

    labelled = torch.zeros(len(pool_y), dtype=torch.bool)
    labelled[torch.randperm(len(pool_y))[:cfg["initial"]]] = True
    for rnd in range(cfg["rounds"] + 1):
        model, loss = fit(cfg, pool_x[labelled], pool_y[labelled])
        acc = test_accuracy(model, test_x, test_y)
        print(f"round {rnd}: {int(labelled.sum())} labels, train loss {loss:.3f} test accuracy {acc:.3f}")
        if rnd == cfg["rounds"]:
            break
        candidates = torch.nonzero(~labelled).squeeze(1)
        score = variation_ratio(model, pool_x[candidates], cfg["mc_passes"])
        best = score.argsort(descending=True, stable=True)[:cfg["query"]]
        labelled[candidates[best]] = True


if __name__ == "__main__":
    main()
