"""Predict the delay of a tram at the terminus from what was logged at the 12 stops before."""
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


@dataclass
class Config:
    runs: int = 1600
    window: int = 12
    hidden: int = 32
    layers: int = 1
    batch_size: int = 64
    epochs: int = 10
    lr: float = 5e-3
    clip: float = 1.0
    seed: int = 5


class TramRuns:
    """Synthetic AVL log per stop: seconds lost on the segment, dwell, boardings, signal, headway, rain."""

    def __init__(self, cfg: Config):
        rng = np.random.default_rng(cfg.seed)
        n, t = cfg.runs, cfg.window
        hour = rng.uniform(5, 24, n)
        peak = np.exp(-((hour - 8) / 1.5) ** 2) + np.exp(-((hour - 17) / 2) ** 2)
        rain = (rng.random(n) < 0.25).astype(float)
        traffic = rng.normal(0, 4, n) + 6 * peak
        delay = np.zeros(n)
        x = np.zeros((n, t, 6))
        for k in range(t):
            board = rng.poisson(3 + 9 * peak + 0.03 * np.clip(delay, 0, None))
            dwell = 12 + 1.6 * board + rng.normal(0, 4, n)
            red = (rng.random(n) < 0.3).astype(float)
            headway = rng.normal(420, 60, n)
            traffic = 0.7 * traffic + rng.normal(0, 12, n) + 2 * peak
            x[:, k] = np.stack([traffic, dwell, board, red, headway, rain], 1)
            slack = np.where(delay > 60, 10, 4)
            delay = delay + traffic + 0.9 * (dwell - 25) + 22 * red + 4 * rain - slack + rng.normal(0, 3, n)
            delay = np.maximum(delay, -45)
        self.x = x.astype(np.float32)
        self.y = delay.astype(np.float32)
        order = rng.permutation(n)
        self.train_idx, self.valid_idx = order[: int(0.8 * n)], order[int(0.8 * n):]

    def tensors(self):
        xt = self.x[self.train_idx]
        mean, std = xt.mean((0, 1)), xt.std((0, 1))
        ym, ys = self.y[self.train_idx].mean(), self.y[self.train_idx].std()
        pack = lambda i: TensorDataset(
            torch.tensor((self.x[i] - mean) / std), torch.tensor((self.y[i] - ym) / ys))
        return pack(self.train_idx), pack(self.valid_idx), float(ys)


class DelayNet(nn.Module):
    def __init__(self, n_features: int, cfg: Config):
        super().__init__()
        self.embed = nn.Linear(n_features, cfg.hidden)
        self.rnn = nn.GRU(cfg.hidden, cfg.hidden, num_layers=cfg.layers, batch_first=True)
        self.head = nn.Sequential(nn.Linear(cfg.hidden, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, x):
        z = torch.relu(self.embed(x))
        out, _ = self.rnn(z)
        return self.head(out[:, -1]).squeeze(-1)


class Trainer:
    def __init__(self, cfg: Config):
        torch.manual_seed(cfg.seed)
        self.cfg = cfg
        train, valid, self.scale = TramRuns(cfg).tensors()
        self.train_loader = DataLoader(train, cfg.batch_size, shuffle=True)
        self.valid_loader = DataLoader(valid, cfg.batch_size)
        self.model = DelayNet(train.tensors[0].shape[-1], cfg)
        self.opt = torch.optim.Adam(self.model.parameters(), lr=cfg.lr)
        self.loss = nn.SmoothL1Loss()

    def fit(self):
        for epoch in range(self.cfg.epochs):
            self.model.train()
            total = 0.0
            for x, y in self.train_loader:
                loss = self.loss(self.model(x), y)
                self.opt.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(self.model.parameters(), self.cfg.clip)
                self.opt.step()
                total += loss.item()
            print(f"[{epoch + 1:02d}] loss={total / len(self.train_loader):.4f} val_mae={self.evaluate():.2f}s")

    @torch.no_grad()
    def evaluate(self):
        self.model.eval()
        err = torch.cat([(self.model(x) - y).abs() for x, y in self.valid_loader])
        return err.mean().item() * self.scale


if __name__ == "__main__":
    trainer = Trainer(Config())
    trainer.fit()
    print(f"validation MAE: {trainer.evaluate():.3f} s")
