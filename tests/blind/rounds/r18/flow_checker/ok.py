# RealNVP on a 2-d density (two interleaved spirals), exact maximum likelihood.
from dataclasses import dataclass
import math
import torch
import torch.nn as nn


@dataclass
class Cfg:
    n_layers: int = 6
    hidden: int = 48
    lr: float = 2e-3
    steps: int = 520
    batch: int = 256
    seed: int = 1


def spirals(n, gen):
    t = (0.15 + 0.85 * torch.rand(n, generator=gen).sqrt()) * 2.6 * math.pi
    sign = (torch.rand(n, generator=gen) < 0.5).float() * 2 - 1
    xy = torch.stack([t.cos() * t, t.sin() * t], 1) * sign[:, None] / 4.0
    return xy + 0.12 * torch.randn(n, 2, generator=gen)


class Coupling(nn.Module):
    def __init__(self, swap, hidden):
        super().__init__()
        self.swap = swap
        self.net = nn.Sequential(nn.Linear(1, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh(), nn.Linear(hidden, 2))
        nn.init.zeros_(self.net[-1].weight)
        nn.init.zeros_(self.net[-1].bias)

    def forward(self, x):
        keep, move = x.chunk(2, dim=1)
        if self.swap:
            keep, move = move, keep
        s, t = self.net(keep).chunk(2, dim=1)
        s = 2.0 * torch.tanh(s / 2.0)
        move = move * s.exp() + t
        out = torch.cat([move, keep] if self.swap else [keep, move], 1)
        return out, s.squeeze(1)


class AffineConst(nn.Module):
    def __init__(self):
        super().__init__()
        self.log_scale, self.shift = nn.Parameter(torch.zeros(2)), nn.Parameter(torch.zeros(2))

    def forward(self, x):
        return x * self.log_scale.exp() + self.shift, self.log_scale.sum().expand(len(x))


class Flow(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        layers = []
        while len(layers) < 2 * cfg.n_layers:
            layers.append(AffineConst())
            layers.append(Coupling(swap=len(layers) % 4 == 1, hidden=cfg.hidden))
        self.layers = nn.ModuleList(layers)

    def log_prob(self, x):
        total = torch.zeros(len(x))
        for layer in self.layers:
            x, ld = layer(x)
            total = total + ld
        base = -0.5 * (x ** 2).sum(1) - math.log(2 * math.pi)
        return base + total


cfg = Cfg()
torch.manual_seed(cfg.seed)
gen = torch.Generator().manual_seed(cfg.seed + 1)
train, test = spirals(20000, gen), spirals(4000, gen)
flow = Flow(cfg)
opt = torch.optim.Adam(flow.parameters(), lr=cfg.lr)
sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, cfg.steps)
for step in range(cfg.steps):
    x = train[torch.randint(0, len(train), (cfg.batch,))]
    loss = -flow.log_prob(x).mean()
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(flow.parameters(), 5.0)
    opt.step()
    sched.step()
    if step % 100 == 0:
        print(f"step {step:4d} nll {loss.item():.4f}")
with torch.no_grad():
    print(f"test nll {-flow.log_prob(test).mean().item():.4f} nats")
