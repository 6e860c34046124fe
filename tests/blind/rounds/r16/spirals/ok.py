"""Tiny diffusion model for points on a spiral."""
import math
import torch
import torch.nn as nn
import torch.nn.functional as F


class Schedule:
    def __init__(self, steps=60):
        self.steps = steps
        self.beta = torch.linspace(1e-3, 0.12, steps)
        self.alpha = 1 - self.beta
        self.abar = torch.cumprod(self.alpha, 0)

    def noisy(self, x0, t, eps):
        a = self.abar[t][:, None]
        return a.sqrt() * x0 + (1 - a).sqrt() * eps


class Denoiser(nn.Module):
    def __init__(self, width=96):
        super().__init__()
        self.time = nn.Sequential(nn.Linear(1, width), nn.SiLU(), nn.Linear(width, width))
        self.inp = nn.Linear(2, width)
        self.mid = nn.Sequential(nn.SiLU(), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU())
        self.out = nn.Linear(width, 2)

    def forward(self, x, tau):
        h = self.inp(x) + self.time(tau[:, None])
        return self.out(self.mid(h))


def spiral(n):
    r = torch.rand(n).sqrt()
    ang = 3.5 * math.pi * r
    return torch.stack([r * ang.cos(), r * ang.sin()], 1) * 2 + 0.04 * torch.randn(n, 2)


def train(net, sch, iters=550, batch=256):
    opt = torch.optim.Adam(net.parameters(), lr=3e-3)
    avg = 0.0
    for i in range(1, iters + 1):
        x0 = spiral(batch)
        t = torch.randint(0, sch.steps, (batch,))
        eps = torch.randn_like(x0)
        pred = net(sch.noisy(x0, t, eps), t.float() / sch.steps)
        loss = F.mse_loss(pred, eps)
        opt.zero_grad()
        loss.backward()
        opt.step()
        avg = 0.95 * avg + 0.05 * loss.item()
        if i % 100 == 0:
            print(f"iter {i} loss {avg:.4f}")


@torch.no_grad()
def generate(net, sch, n):
    x = torch.randn(n, 2)
    for t in reversed(range(sch.steps)):
        tau = torch.full((n,), t / sch.steps)
        eps = net(x, tau)
        x = (x - sch.beta[t] / (1 - sch.abar[t]).sqrt() * eps) / sch.alpha[t].sqrt()
        if t > 0:
            x = x + sch.beta[t].sqrt() * torch.randn_like(x)
    return x


def chamfer(a, b):
    d = torch.cdist(a, b)
    return (d.min(1).values.mean() + d.min(0).values.mean()).item() / 2


if __name__ == "__main__":
    torch.manual_seed(2)
    schedule, model = Schedule(), Denoiser()
    train(model, schedule)
    print(f"chamfer distance of samples to data {chamfer(generate(model, schedule, 1500), spiral(1500)):.4f}")
