"""Flow matching for wind-turbine measurements (wind, power, pitch, rotor speed)."""
import argparse
import math

import numpy as np
import torch
from torch import nn


def turbine(n, seed):
    r = np.random.default_rng(seed)
    wind = r.weibull(2.2, n) * 8
    power = 2000 / (1 + np.exp(-(wind - 8.5) * 0.9)) + r.normal(0, 40, n)
    pitch = np.where(wind > 11, (wind - 11) * 2.2, 0) + r.normal(0, 0.5, n)
    rotor = np.clip(4 + 1.1 * wind, 5, 15) + r.normal(0, 0.3, n)
    return np.stack([wind, power, pitch, rotor], 1).astype("float32")


def fourier(t, dim=16):
    freq = torch.exp(torch.linspace(0, math.log(30.0), dim // 2))
    ang = t[:, None] * freq * math.pi
    return torch.cat([ang.sin(), ang.cos()], 1)


class Velocity(nn.Module):
    def __init__(self, d, width=128):
        super().__init__()
        self.x_in = nn.Linear(d, width)
        self.t_in = nn.Linear(16, width)
        self.l1, self.l2 = nn.Linear(width, width), nn.Linear(width, width)
        self.out = nn.Linear(width, d)

    def forward(self, x, t):
        e = self.t_in(fourier(t))
        h = nn.functional.silu(self.x_in(x) + e)
        h = nn.functional.silu(self.l1(h) + e)
        h = nn.functional.silu(self.l2(h))
        return self.out(h)


def fm_loss(model, x1):
    x0 = torch.randn_like(x1)
    t = torch.rand(len(x1))
    xt = (1 - t[:, None]) * x0 + t[:, None] * x1
    return ((model(xt, t) - (x1 - x0)) ** 2).mean()


@torch.no_grad()
def integrate(model, n, d, steps):
    x = torch.randn(n, d)
    dt = 1.0 / steps
    for k in range(steps):
        t = torch.full((n,), k * dt)
        v = model(x, t)
        mid = model(x + 0.5 * dt * v, t + 0.5 * dt)
        x = x + dt * mid
    return x


def sliced(a, b, k=128):
    w = torch.randn(a.shape[1], k, generator=torch.Generator().manual_seed(3))
    w = w / w.norm(dim=0, keepdim=True)
    return (torch.sort(a @ w, 0)[0] - torch.sort(b @ w, 0)[0]).abs().mean().item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--iters", type=int, default=1000)
    ap.add_argument("--batch", type=int, default=128)
    ap.add_argument("--ode-steps", type=int, default=40)
    cfg = ap.parse_args()
    torch.manual_seed(21)
    train, test = turbine(8000, 0), turbine(800, 1)
    m, s = train.mean(0), train.std(0)
    xtr, xte = torch.from_numpy((train - m) / s), torch.from_numpy((test - m) / s)
    model = Velocity(xtr.shape[1])
    opt = torch.optim.Adam(model.parameters(), lr=1.5e-3)
    for it in range(cfg.iters):
        for group in opt.param_groups:
            group["lr"] = 1.5e-3 * (1 - it / cfg.iters)
        loss = fm_loss(model, xtr[torch.randint(0, len(xtr), (cfg.batch,))])
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        if it % 250 == 0:
            print(f"iter {it} fm loss {loss.item():.4f}")
    gen = integrate(model, len(xte), xte.shape[1], cfg.ode_steps)
    print(f"sliced distance: {sliced(gen, xte):.4f}")


if __name__ == "__main__":
    main()
