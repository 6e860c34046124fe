"""Adapt a value net for twenty-one, learned under the club rules, to the casino's house rules."""
import json
import os
import sys

import numpy as np
import torch
from torch import nn


def draw(rng, n):
    return np.minimum(rng.integers(1, 14, n), 10)


def rollout(n, rng, dealer_stop, tie_value):
    """State is (player total, dealer's open card, action). Player takes one card if action is 1, then stands; dealer draws up to dealer_stop."""
    total = rng.integers(8, 22, n)
    upcard = draw(rng, n)
    action = rng.integers(0, 2, n)
    player = total + action * draw(rng, n)
    dealer = upcard.copy()
    for _ in range(12):
        dealer = np.where(dealer < dealer_stop, dealer + draw(rng, n), dealer)
    win = np.where(dealer > 21, 1.0, np.sign(player - dealer).astype(float))
    win = np.where((win == 0), tie_value, win)
    payoff = np.where(player > 21, -1.0, win)
    state = np.stack([total, upcard, action], 1).astype(np.float32)
    return state, payoff.astype(np.float32)


class ValueNet(nn.Module):
    def __init__(self, width=48):
        super().__init__()
        self.total = nn.Embedding(22, 12)
        self.upcard = nn.Embedding(11, 8)
        self.action = nn.Embedding(2, 4)
        self.mlp = nn.Sequential(nn.Linear(24, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(),
                                 nn.Linear(width, 1))

    def forward(self, s):
        s = s.long()
        return self.mlp(torch.cat([self.total(s[:, 0]), self.upcard(s[:, 1]), self.action(s[:, 2])], 1)).squeeze(1)


def value_table(rules, rng, n=300_000):
    """Monte-Carlo values of every (total, upcard, action) under the given rules."""
    s, z = rollout(n, rng, **rules)
    key = s[:, 0].astype(int) * 100 + s[:, 1].astype(int) * 2 + s[:, 2].astype(int)
    sums = np.bincount(key, weights=z)
    counts = np.bincount(key)
    keys = np.flatnonzero(counts > 30)
    states = np.stack([keys // 100, (keys % 100) // 2, keys % 2], 1).astype(np.float32)
    return torch.tensor(states), torch.tensor(sums[keys] / counts[keys]).float()


@torch.no_grad()
def table_error(model, states, values):
    model.eval()
    return (model(states) - values).abs().mean().item()


def main(folder):
    with open(os.path.join(folder, "config.json")) as fh:
        cfg = json.load(fh)
    torch.manual_seed(cfg["seed"])
    rng = np.random.default_rng(cfg["seed"])
    rules = {"dealer_stop": cfg["dealer_stop"], "tie_value": cfg["tie_value"]}
    states, values = (torch.tensor(a) for a in rollout(cfg["hands"], rng, **rules))
    test_states, test_values = value_table(rules, rng)

    model = ValueNet()
    opt = torch.optim.Adam(model.parameters(), lr=cfg["lr"])
    ckpt = torch.load(os.path.join(folder, cfg["resume"]), weights_only=True)
    model.load_state_dict(ckpt["model"])
    opt.load_state_dict(ckpt["optimizer"])
    print(f"resumed from step {ckpt['step']}, table error under the house rules {table_error(model, test_states, test_values):.4f}")

    for epoch in range(cfg["epochs"]):
        model.train()
        total = 0.0
        for idx in torch.randperm(len(states)).split(cfg["batch"]):
            loss = ((model(states[idx]) - values[idx]) ** 2).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(idx)
        print(f"epoch {epoch} train mse {total / len(states):.4f} table error {table_error(model, test_states, test_values):.4f}")

    model.eval()
    with torch.no_grad():
        hit = model(torch.tensor([[t, 10.0, 1.0] for t in range(8, 22)])) > model(torch.tensor([[t, 10.0, 0.0] for t in range(8, 22)]))
    print("against a ten, hit on:", [t for t, h in zip(range(8, 22), hit.tolist()) if h])


if __name__ == "__main__":
    main(sys.argv[1])
