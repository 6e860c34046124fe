"""Behaviour cloning of the scripted driver of our warehouse robots."""
from dataclasses import dataclass, field

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


@dataclass
class Config:
    demos: int = 4000
    held_out: int = 1000
    rays: int = 24
    code: int = 5
    epochs: int = 15
    lr: float = 3e-3
    seed: int = 3
    sensors: dict = field(default_factory=lambda: {"front": 24, "rear": 24, "goal": 4})


def scripted_driver(front, rear, goal):
    angle = np.linspace(-np.pi / 2, np.pi / 2, front.shape[1])
    near = np.exp(-front / 0.8)
    push = -(near * np.sign(angle) * np.cos(angle)).sum(1) * 0.35
    heading = np.arctan2(goal[:, 1], goal[:, 0])
    turn = np.tanh(0.9 * heading + push)
    ahead = front[:, 9:15].min(1)
    speed = np.clip((ahead - 0.3) / 2.0, 0, 1) * np.cos(turn) ** 2
    blocked = ahead < 0.5
    back = np.clip(rear[:, 8:16].min(1) - 0.4, 0, 0.5)
    speed = np.where(blocked, -back, speed)
    return np.stack([speed, turn], 1)


def record(cfg, n, rng):
    def lidar():
        d = rng.uniform(1.5, 5.0, (n, 1)) + 0.3 * rng.standard_normal((n, cfg.rays))
        for _ in range(3):
            c, w, dist = rng.integers(0, cfg.rays, n), rng.integers(1, 5, n), rng.uniform(0.2, 3.5, n)
            hit = np.abs(np.arange(cfg.rays)[None] - c[:, None]) <= w[:, None]
            d = np.where(hit, np.minimum(d, dist[:, None]), d)
        return d.clip(0.1, 5.0)

    front, rear = lidar(), lidar()
    bearing, dist = rng.uniform(-np.pi, np.pi, n), rng.uniform(0.5, 8, n)
    goal = np.stack([np.cos(bearing), np.sin(bearing), dist / 8, rng.integers(0, 2, n)], 1)
    act = scripted_driver(front, rear, goal)
    obs = np.concatenate([np.exp(-front / 1.5), np.exp(-rear / 1.5), goal], 1)
    return torch.tensor(obs, dtype=torch.float32), torch.tensor(act, dtype=torch.float32)


class Policy(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.sizes = list(cfg.sensors.values())
        self.encoders = nn.ModuleList([nn.Sequential(nn.Linear(n, cfg.code), nn.Tanh()) for n in self.sizes])
        self.trunk = nn.Sequential(
            nn.Linear(cfg.code * len(self.sizes), 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))

    def forward(self, obs):
        parts = obs.split(self.sizes, dim=1)
        return self.trunk(torch.cat([e(p) for e, p in zip(self.encoders, parts)], dim=1))


def main():
    cfg = Config()
    torch.manual_seed(cfg.seed)
    rng = np.random.default_rng(cfg.seed)
    train = TensorDataset(*record(cfg, cfg.demos, rng))
    obs_te, act_te = record(cfg, cfg.held_out, rng)
    policy = Policy(cfg)
    optimizer = torch.optim.Adam(policy.parameters(), lr=cfg.lr)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, cfg.epochs)
    loader = DataLoader(train, batch_size=128, shuffle=True)
    for epoch in range(cfg.epochs):
        losses = []
        for obs, act in loader:
            loss = F.mse_loss(policy(obs), act)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        scheduler.step()
        if epoch % 3 == 2:
            print(f"epoch {epoch + 1:2d}  bc loss {np.mean(losses):.4f}")
    with torch.no_grad():
        err = policy(obs_te) - act_te
    r2 = 1 - (err ** 2).sum(0) / ((act_te - act_te.mean(0)) ** 2).sum(0)
    print(f"held-out action mse {err.pow(2).mean():.4f}   R2 speed {r2[0]:.3f}  turn {r2[1]:.3f}")


if __name__ == "__main__":
    main()
