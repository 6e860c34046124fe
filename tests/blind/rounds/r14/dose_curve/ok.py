"""Fit dose/response curves from few noisy wells; keep the weights of the best validation epoch."""
import copy
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn as nn


@dataclass
class Config:
    seed: int = 2
    n_train: int = 90
    n_val: int = 120
    n_test: int = 1500
    n_feat: int = 10
    hidden: int = 256
    epochs: int = 400
    lr: float = 3e-3


def wells(cfg, n, rng):
    x = rng.normal(size=(n, cfg.n_feat)).astype(np.float32)
    resp = 1.6 / (1 + np.exp(-2.0 * x[:, 0])) + 0.5 * x[:, 1]
    y = resp + rng.normal(scale=0.9, size=n)
    return torch.from_numpy(x), torch.from_numpy(y.astype(np.float32)), torch.from_numpy(resp.astype(np.float32))


def build(cfg):
    return nn.Sequential(
        nn.Linear(cfg.n_feat, cfg.hidden), nn.ReLU(),
        nn.Linear(cfg.hidden, cfg.hidden), nn.ReLU(),
        nn.Linear(cfg.hidden, 1), nn.Flatten(0),
    )


class BestKeeper:
    def __init__(self):
        self.loss = float("inf")
        self.epoch = -1
        self.weights = None

    def offer(self, model, loss, epoch):
        if loss < self.loss:
            self.loss = loss
            self.epoch = epoch
            self.weights = copy.deepcopy(model.state_dict())

    def restore(self, model):
        model.load_state_dict(self.weights)


def evaluate(model, x, y):
    model.eval()
    with torch.no_grad():
        return nn.functional.mse_loss(model(x), y).item()


def run(cfg):
    torch.manual_seed(cfg.seed)
    rng = np.random.default_rng(cfg.seed)
    xtr, ytr, _ = wells(cfg, cfg.n_train, rng)
    xva, yva, _ = wells(cfg, cfg.n_val, rng)
    xte, _, clean = wells(cfg, cfg.n_test, rng)
    model = build(cfg)
    opt = torch.optim.Adam(model.parameters(), lr=cfg.lr)
    keeper = BestKeeper()
    for epoch in range(cfg.epochs):
        model.train()
        opt.zero_grad()
        loss = nn.functional.mse_loss(model(xtr), ytr)
        loss.backward()
        opt.step()
        val = evaluate(model, xva, yva)
        keeper.offer(model, val, epoch)
        if epoch % 100 == 99:
            print(f"{epoch + 1:4d} train {loss.item():.4f} val {val:.4f} best {keeper.loss:.4f} @ {keeper.epoch}")
    keeper.restore(model)
    print(f"test MSE against the true curve {evaluate(model, xte, clean):.4f}")


if __name__ == "__main__":
    run(Config())
