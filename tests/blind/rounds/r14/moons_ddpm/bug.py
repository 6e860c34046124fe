"""Denoising diffusion on two moons."""
import math
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class Cfg:
    steps: int = 60
    beta_min: float = 1e-3
    beta_max: float = 0.12
    width: int = 96
    iters: int = 1100
    batch: int = 256
    lr: float = 2e-3
    seed: int = 13


def two_moons(n):
    a = math.pi * torch.rand(n)
    up = torch.stack([torch.cos(a), torch.sin(a)], 1)
    low = torch.stack([1 - torch.cos(a), 0.5 - torch.sin(a)], 1)
    pick = (torch.rand(n, 1) < 0.5).float()
    x = pick * up + (1 - pick) * low + 0.06 * torch.randn(n, 2)
    return (x - torch.tensor([0.5, 0.25])) / torch.tensor([0.87, 0.5])


class Denoiser(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.freq = nn.Parameter(torch.tensor([1.0, 2.0, 4.0, 8.0]), requires_grad=False)
        self.net = nn.Sequential(
            nn.Linear(2 + 8, width), nn.SiLU(),
            nn.Linear(width, width), nn.SiLU(),
            nn.Linear(width, 2),
        )

    def forward(self, x, t):
        ang = t[:, None] * self.freq[None, :]
        return self.net(torch.cat([x, torch.sin(ang), torch.cos(ang)], 1))


class Diffusion:
    def __init__(self, cfg):
        self.T = cfg.steps
        self.beta = torch.linspace(cfg.beta_min, cfg.beta_max, cfg.steps)
        self.alpha = 1 - self.beta
        self.abar = torch.cumprod(self.alpha, 0)

    def loss(self, net, x0):
        t = torch.randint(0, self.T, (len(x0),))
        eps = torch.randn_like(x0)
        ab = self.abar[t][:, None]
        xt = ab.sqrt() * x0 + (1 - ab).sqrt() * eps
        return ((net(xt, t.float() / self.T) - eps) ** 2).mean()

    @torch.no_grad()
    def sample(self, net, n):
        x = torch.randn(n, 2)
        for i in reversed(range(self.T)):
            t = torch.full((n,), float(i))
            eps = net(x, t)
            x = (x - self.beta[i] / (1 - self.abar[i]).sqrt() * eps) / self.alpha[i].sqrt()
            if i > 0:
                x = x + self.beta[i].sqrt() * torch.randn_like(x)
        return x


def energy(a, b):
    return (2 * torch.cdist(a, b).mean() - torch.cdist(a, a).mean() - torch.cdist(b, b).mean()).item()


def main(cfg=Cfg()):
    torch.manual_seed(cfg.seed)
    net, diff = Denoiser(cfg.width), Diffusion(cfg)
    opt = torch.optim.Adam(net.parameters(), lr=cfg.lr)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, cfg.iters)
    avg = 0.0
    for it in range(cfg.iters):
        loss = diff.loss(net, two_moons(cfg.batch))
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        avg = 0.98 * avg + 0.02 * loss.item()
        if (it + 1) % 550 == 0:
            print(f"{it + 1}: eps-loss {avg:.4f}")
    net.eval()
    print(f"energy distance samples/data {energy(diff.sample(net, 1500), two_moons(1500)):.4f}")


if __name__ == "__main__":
    main()
