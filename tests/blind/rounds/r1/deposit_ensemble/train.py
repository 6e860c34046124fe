"""Deep ensemble for term-deposit uptake: the spread of the members is the reported uncertainty."""
import json
import sys
from pathlib import Path
import numpy as np
import torch
from torch import nn
import torch.nn.functional as F

FOLDER = Path(sys.argv[1])


def clients(n, seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 12))
    z = 1.3 * x[:, 0] - 1.1 * x[:, 1] + 1.2 * x[:, 2] * x[:, 3] + 0.8 * np.sin(2 * x[:, 4]) - 0.6
    y = rng.random(n) < 1 / (1 + np.exp(-1.5 * z))
    return torch.tensor(x, dtype=torch.float32), torch.tensor(y, dtype=torch.float32)


def train_member(seed, x, y, cfg):
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Linear(12, cfg["width"]), nn.ReLU(), nn.Linear(cfg["width"], cfg["width"]), nn.ReLU(), nn.Linear(cfg["width"], 1))
    optimizer = torch.optim.AdamW(net.parameters(), lr=cfg["lr"], weight_decay=cfg["weight_decay"])
    net.train()
    for epoch in range(cfg["epochs"]):
        total = 0.0
        for idx in torch.randperm(len(x)).split(cfg["batch_size"]):
            loss = F.binary_cross_entropy_with_logits(net(x[idx]).squeeze(1), y[idx])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(idx)
    return net.eval(), total / len(x)


def main():
    cfg = json.loads((FOLDER / "ensemble.json").read_text())
    x_train, y_train = clients(1000, 1)
    x_val, y_val = clients(1500, 2)
    probs = []
    for number, seed in enumerate(cfg["seeds"]):
        net, train_loss = train_member(seed, x_train, y_train, cfg)
        with torch.no_grad():
            p = net(x_val).squeeze(1).sigmoid()
        probs.append(p)
        acc = ((p > 0.5) == (y_val == 1)).float().mean()
        print(f"member {number}: train loss {train_loss:.4f} val log-loss {F.binary_cross_entropy(p, y_val):.4f} acc {acc:.3f}")
    probs = torch.stack(probs)
    mean, spread = probs.mean(0), probs.std(0)
    acc = ((mean > 0.5) == (y_val == 1)).float().mean()
    print(f"ensemble: val log-loss {F.binary_cross_entropy(mean, y_val):.4f} acc {acc:.3f} mean spread {spread.mean():.4f}")


if __name__ == "__main__":
    main()
