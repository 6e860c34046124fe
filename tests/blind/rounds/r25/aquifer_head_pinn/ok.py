"""Groundwater head between two rivers: a network through the wells that also obeys Darcy's law with recharge."""
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn


@dataclass
class Site:
    length_m: float = 2400.0
    transmissivity: float = 320.0      # m2/day
    wells: int = 9
    noise_m: float = 0.12


@dataclass
class Run:
    steps: int = 2500
    lr: float = 3e-3
    points: int = 64
    weight: float = 0.05
    seed: int = 8


def recharge(s):
    """m/day along the section, s in 0..1 (a forest, a field, a village, an infiltration basin)."""
    base = 0.0006 + 0.0004 * torch.sin(9.0 * s)
    basin = 0.006 * torch.exp(-((s - 0.62) / 0.035) ** 2)
    pumping = -0.005 * torch.exp(-((s - 0.30) / 0.05) ** 2)
    return base + basin + pumping


def true_head(site, n=4001, left=31.0, right=29.2):
    """Solves T h'' = -R with fixed river stages by integrating twice."""
    s = torch.linspace(0, 1, n, dtype=torch.float64)
    f = -recharge(s) * site.length_m ** 2 / site.transmissivity
    ds = 1.0 / (n - 1)
    slope = torch.cumulative_trapezoid(f, dx=ds)
    slope = torch.cat([torch.zeros(1, dtype=torch.float64), slope])
    part = torch.cat([torch.zeros(1, dtype=torch.float64), torch.cumulative_trapezoid(slope, dx=ds)])
    h = left + part + (right - left - part[-1]) * s
    return s.float(), h.float()


class HeadNet(nn.Module):
    def __init__(self, width=48, offset=30.0):
        super().__init__()
        self.offset = offset
        self.net = nn.Sequential(
            nn.Linear(1, width), nn.Tanh(),
            nn.Linear(width, width), nn.Tanh(),
            nn.Linear(width, width), nn.Tanh(),
            nn.Linear(width, 1))

    def forward(self, s):
        return self.offset + 3.0 * self.net(4.0 * s - 2.0)


def darcy_residual(model, s, site):
    s = s.requires_grad_(True)
    h = model(s)
    first, = torch.autograd.grad(h.sum(), s, create_graph=True)
    second, = torch.autograd.grad(first.sum(), s, create_graph=True)
    return second * site.transmissivity / site.length_m ** 2 * 1000.0 + recharge(s) * 1000.0


def main():
    site, run = Site(), Run()
    torch.manual_seed(run.seed)
    rng = np.random.default_rng(run.seed)
    grid, head = true_head(site)
    where = np.sort(rng.choice(np.arange(150, 3850), site.wells, replace=False))
    where = np.concatenate([[0], where, [len(grid) - 1]])
    noise = torch.tensor(rng.normal(0, site.noise_m, len(where)), dtype=torch.float32)
    noise[0] = noise[-1] = 0.0
    s_obs, h_obs = grid[where][:, None], (head[where] + noise)[:, None]
    held = torch.tensor(rng.choice(len(grid), 400, replace=False))
    s_val, h_val = grid[held][:, None], head[held][:, None]

    model = HeadNet()
    opt = torch.optim.Adam(model.parameters(), lr=run.lr)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, run.steps)
    for step in range(run.steps):
        s_col = torch.rand(run.points, 1)
        fit = (model(s_obs) - h_obs).square().mean()
        physics = darcy_residual(model, s_col, site).square().mean()
        loss = fit + run.weight * physics
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        sched.step()
        if step % 500 == 0 or step == run.steps - 1:
            with torch.no_grad():
                rmse = (model(s_val) - h_val).square().mean().sqrt().item()
            print(f"step {step:5d}  wells {fit.item():.5f}  physics {physics.item():.4f}  val RMSE {rmse:.3f} m")
    with torch.no_grad():
        err = model(s_val) - h_val
    print(f"head between {head.min():.2f} and {head.max():.2f} m   val RMSE {err.square().mean().sqrt():.4f} m   "
          f"worst {err.abs().max():.3f} m")


if __name__ == "__main__":
    main()
