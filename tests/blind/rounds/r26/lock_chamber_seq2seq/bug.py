"""Water level in a canal lock chamber while it fills: 20 steps of 15 s ahead, from the last 16 steps and the planned sluice opening."""
import math
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class Config:
    past: int = 16
    ahead: int = 20
    hidden: int = 48
    batch: int = 64
    epochs: int = 8
    lr: float = 4e-3
    seed: int = 21


def fillings(n, steps, gen):
    """Chamber filled through two sluices under a falling head, with leakage, a swinging upper pound and gauge noise."""
    u = lambda lo, hi: lo + (hi - lo) * torch.rand(n, generator=gen)
    level, upper = u(0.0, 1.2), u(2.2, 4.2)
    area, leak = u(0.7, 1.4), u(0.0, 0.015)
    swing, period, phase = u(0.0, 0.12), u(8, 18), u(0, 2 * math.pi)
    opening = torch.zeros(n, steps)
    pos = u(0.0, 0.5)
    goal = u(0.1, 1.0)
    levels = torch.zeros(n, steps)
    for t in range(steps):
        change = torch.rand(n, generator=gen) < 0.12
        goal = torch.where(change, torch.rand(n, generator=gen), goal)
        pos = pos + (goal - pos).clamp(-0.12, 0.12)
        opening[:, t] = pos
        surface = upper + swing * torch.sin(2 * math.pi * t / period + phase)
        head = surface - level
        level = level + 0.11 * pos * head.sign() * head.abs().sqrt() / area - leak * level
        levels[:, t] = level
    return levels + 0.01 * torch.randn(n, steps, generator=gen), opening, upper


class ChamberModel(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.reader = nn.GRU(3, hidden, batch_first=True)
        self.cell = nn.GRUCell(2, hidden)
        self.out = nn.Sequential(nn.Linear(hidden, hidden), nn.Tanh(), nn.Linear(hidden, 1))

    def forward(self, past, plan, measured=None):
        """`past` (batch, steps, 3) ends with the last reading; in training the measured levels are fed back, later the own ones."""
        _, h = self.reader(past)
        h = h[0]
        levels = [past[:, -1, 0]]
        for t in range(plan.shape[1]):
            fed = levels[-1]
            if measured is not None:
                fed = measured[:, t]
            h = self.cell(torch.stack([fed, plan[:, t]], 1), h)
            levels.append(fed + self.out(h)[:, 0])
        return torch.stack(levels[1:], 1)


def make_set(n, cfg, gen):
    levels, opening, upper = fillings(n, cfg.past + cfg.ahead, gen)
    levels = levels - 1.8
    opening = 2 * opening - 1
    before = torch.stack([levels, opening, (upper - 3.2)[:, None].expand_as(levels)], 2)[:, :cfg.past]
    return before, opening[:, cfg.past:], levels[:, cfg.past:]


@torch.no_grad()
def evaluate(model, data):
    model.eval()
    past, plan, levels = data
    error = (model(past, plan) - levels).abs()
    still = (past[:, -1:, 0] - levels).abs()
    return 100 * error.mean().item(), 100 * error[:, -1].mean().item(), 100 * still.mean().item()


def main(cfg):
    torch.manual_seed(cfg.seed)
    gen = torch.Generator().manual_seed(cfg.seed)
    train = make_set(1200, cfg, gen)
    val = make_set(400, cfg, gen)
    model = ChamberModel(cfg.hidden)
    opt = torch.optim.Adam(model.parameters(), lr=cfg.lr)
    steps = cfg.epochs * (len(train[0]) // cfg.batch)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, steps)
    for epoch in range(1, cfg.epochs + 1):
        model.train()
        order = torch.randperm(len(train[0]), generator=gen)
        total = 0.0
        for k in range(len(order) // cfg.batch):
            past, plan, levels = (part[order[k * cfg.batch:(k + 1) * cfg.batch]] for part in train)
            loss = (model(past, plan, levels) - levels).pow(2).mean()
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            sched.step()
            total += loss.item()
        if epoch % 2 == 0:
            mae, end, still = evaluate(model, val)
            print(f"epoch {epoch:2d}  train mse {1e4 * total / (k + 1):8.2f} cm2  val MAE {mae:6.2f} cm  after 5 min {end:6.2f} cm  (standing water {still:.2f})")


if __name__ == "__main__":
    main(Config())
