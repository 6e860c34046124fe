"""Density estimation with coupling layers (RealNVP) on a bent two-dimensional cloud."""
import math
from typing import NamedTuple
import torch
from torch import nn


class Settings(NamedTuple):
    layers: int = 5
    hidden: int = 32
    iters: int = 700
    batch: int = 128
    lr: float = 3e-3


def banana(n, g):
    z = torch.randn(n, 2, generator=g)
    return torch.stack([1.5 * z[:, 0], 0.4 * z[:, 1] + 0.6 * z[:, 0] ** 2 - 0.6], 1)


class Coupling(nn.Module):
    def __init__(self, keep, hidden):
        super().__init__()
        self.keep = keep
        self.net = nn.Sequential(nn.Linear(1, hidden), nn.Tanh(), nn.Linear(hidden, 2))

    def parts(self, v):
        a, b = v[:, self.keep:self.keep + 1], v[:, 1 - self.keep:2 - self.keep]
        s, t = self.net(a).chunk(2, 1)
        return a, b, torch.tanh(s), t

    def join(self, a, b):
        return torch.cat([a, b] if self.keep == 0 else [b, a], 1)

    def to_latent(self, x):
        a, b, s, t = self.parts(x)
        return self.join(a, (b - t) * torch.exp(-s)), -s.squeeze(1)

    def to_data(self, z):
        a, b, s, t = self.parts(z)
        return self.join(a, b * torch.exp(s) + t)


class Flow(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.steps = nn.ModuleList(Coupling(i % 2, cfg.hidden) for i in range(cfg.layers))

    def log_prob(self, x):
        logdet = torch.zeros(len(x))
        for step in self.steps:
            x, logdet = step.to_latent(x)
        base = -0.5 * (x ** 2).sum(1) - math.log(2 * math.pi)
        return base + logdet

    @torch.no_grad()
    def sample(self, n, g):
        z = torch.randn(n, 2, generator=g)
        for step in reversed(self.steps):
            z = step.to_data(z)
        return z


def energy_distance(a, b):
    cross = torch.cdist(a, b).mean()
    return (2 * cross - torch.cdist(a, a).mean() - torch.cdist(b, b).mean()).item()


def main(cfg=Settings()):
    torch.manual_seed(13)
    g = torch.Generator().manual_seed(1)
    data = banana(3000, g)
    flow = Flow(cfg)
    opt = torch.optim.Adam(flow.parameters(), lr=cfg.lr)
    for it in range(cfg.iters):
        pick = torch.randint(0, len(data), (cfg.batch,), generator=g)
        loss = -flow.log_prob(data[pick]).mean()
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(flow.parameters(), 5.0)
        opt.step()
        if it % 175 == 0:
            print(f"iteration {it}: nll {loss.item():.3f}")
    fresh = banana(1500, g)
    print(f"energy distance samples/data: {energy_distance(flow.sample(1500, g), fresh):.4f}")


if __name__ == "__main__":
    main()
