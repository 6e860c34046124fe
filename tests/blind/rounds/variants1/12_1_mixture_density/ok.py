import math
from dataclasses import dataclass
import torch
from torch import nn


@dataclass
class Config:
    rate: float = 3e-3
    decay: float = 1e-6
    batch: int = 100
    epochs: int = 12
    parts: int = 4


def make_optimizer(params, decay, rate):
    return torch.optim.AdamW(params, lr=rate, weight_decay=decay)


def branches(n, gen):
    """y is one of two branches of a curve over x."""
    x = 4 * torch.rand(n, 1, generator=gen) - 2
    sign = (torch.rand(n, 1, generator=gen) < 0.5).float() * 2 - 1
    return x, torch.sin(2 * x) + sign * (0.5 + 0.4 * x.abs()) + 0.08 * torch.randn(n, 1, generator=gen)


class Density(nn.Module):
    def __init__(self, parts, width=64):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(1, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 3 * parts))

    def forward(self, x):
        logit, mean, log_sd = self.net(x).chunk(3, dim=-1)
        return logit.log_softmax(-1), mean, log_sd.clamp(-5, 3)


def nll(out, y):
    log_w, mean, log_sd = out
    z = (y - mean) / log_sd.exp()
    log_p = -0.5 * z * z - log_sd - 0.5 * math.log(2 * math.pi)
    return -torch.logsumexp(log_w + log_p, -1).mean()


def train(cfg):
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(1)
    x, y = branches(3000, gen)
    vx, vy = branches(600, gen)
    model = Density(cfg.parts)
    opt = make_optimizer(model.parameters(), cfg.decay, cfg.rate)
    for epoch in range(cfg.epochs):
        model.train()
        total = 0.0
        for idx in torch.randperm(len(x), generator=gen).split(cfg.batch):
            loss = nll(model(x[idx]), y[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item()
        model.eval()
        with torch.no_grad():
            held = nll(model(vx), vy).item()
        print(f"epoch {epoch} train {total * cfg.batch / len(x):.4f} held-out {held:.4f}")


if __name__ == "__main__":
    train(Config())
