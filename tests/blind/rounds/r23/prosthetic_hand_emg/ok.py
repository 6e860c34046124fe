"""Grip recognition for a prosthetic hand from eight EMG electrodes."""
import copy
import json

import numpy as np
import torch
from torch import nn

CONFIG = json.loads("""
{
  "grips": ["rest", "power", "pinch", "lateral", "point", "open"],
  "electrodes": 8, "samples": 100,
  "train_windows": 2000, "test_windows": 600,
  "epochs": 9, "batch": 40, "lr": 0.002, "average": 0.98, "seed": 12
}
""")


class Forearm:
    """Muscle activity of one amputee; sessions differ in electrode gain."""

    def __init__(self, cfg, rng):
        self.cfg, self.rng = cfg, rng
        self.patterns = rng.gamma(1.2, 12.0, (len(cfg["grips"]), cfg["electrodes"]))
        self.patterns[0] = 3.0
        self.tremor = rng.uniform(0.05, 0.15, len(cfg["grips"]))

    def window(self):
        g = self.rng.integers(len(self.patterns))
        e, n = self.cfg["electrodes"], self.cfg["samples"]
        force = self.rng.uniform(0.4, 1.3)
        gain = self.rng.lognormal(0, 0.25, (e, 1))
        t = np.arange(n)
        wave = 1 + 0.5 * np.sin(self.tremor[g] * t + self.rng.uniform(0, 6.28))
        burst = self.rng.normal(0, 1, (e, n)) * self.patterns[g][:, None] * force * gain * wave
        cross = 0.25 * np.roll(burst, 1, axis=0)
        hum = 4.0 * np.sin(2 * np.pi * 0.05 * t + self.rng.uniform(0, 6.28))
        return np.abs(burst + cross + hum + self.rng.normal(0, 4, (e, n))), g

    def session(self, count):
        x, y = zip(*(self.window() for _ in range(count)))
        return torch.tensor(np.stack(x), dtype=torch.float32), torch.tensor(y)


class GripNet(nn.Module):
    def __init__(self, electrodes, grips, width=24):
        super().__init__()
        self.input_norm = nn.BatchNorm1d(electrodes)
        self.stem = nn.Sequential(nn.Conv1d(electrodes, width, 9, stride=3), nn.BatchNorm1d(width), nn.ReLU())
        self.body = nn.Sequential(nn.Conv1d(width, 2 * width, 5, stride=2), nn.BatchNorm1d(2 * width), nn.ReLU())
        self.head = nn.Linear(2 * width, grips)

    def forward(self, x):
        return self.head(self.body(self.stem(self.input_norm(x))).mean(dim=2))


class Average:
    """Exponential moving average of a network, used for evaluation and on the device."""

    def __init__(self, net, decay):
        self.net = copy.deepcopy(net).eval()
        self.decay = decay
        for p in self.net.parameters():
            p.requires_grad_(False)

    @torch.no_grad()
    def update(self, net):
        own, new = self.net.state_dict(), net.state_dict()
        for name, value in own.items():
            if value.is_floating_point():
                value.lerp_(new[name], 1 - self.decay)


class Trainer:
    def __init__(self, cfg):
        torch.manual_seed(cfg["seed"])
        arm = Forearm(cfg, np.random.default_rng(cfg["seed"]))
        self.cfg = cfg
        self.train_set = arm.session(cfg["train_windows"])
        self.test_set = arm.session(cfg["test_windows"])
        self.net = GripNet(cfg["electrodes"], len(cfg["grips"]))
        self.average = Average(self.net, cfg["average"])
        self.opt = torch.optim.Adam(self.net.parameters(), lr=cfg["lr"])
        self.loss = nn.CrossEntropyLoss(label_smoothing=0.05)

    def epoch(self):
        x, y = self.train_set
        self.net.train()
        seen = 0.0
        for idx in torch.randperm(len(x)).split(self.cfg["batch"]):
            loss = self.loss(self.net(x[idx]), y[idx])
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            self.average.update(self.net)
            seen += loss.item() * len(idx)
        return seen / len(x)

    @torch.no_grad()
    def test(self):
        x, y = self.test_set
        return (self.average.net(x).argmax(1) == y).float().mean().item()

    def fit(self):
        for k in range(self.cfg["epochs"]):
            loss = self.epoch()
            print(f"epoch {k + 1}: train loss {loss:.3f}, test accuracy {self.test():.3f}")


if __name__ == "__main__":
    Trainer(CONFIG).fit()
