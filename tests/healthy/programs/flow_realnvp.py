"""RealNVP: affine coupling layers with alternating masks, log-determinants summed, sampling through the inverse."""

import math

import torch
from torch import nn
from torch.distributions import MultivariateNormal


class Coupling(nn.Module):
    def __init__(self, mask, hidden=32):
        super().__init__()
        self.register_buffer("mask", mask)
        self.scale = nn.Sequential(nn.Linear(2, hidden), nn.Tanh(), nn.Linear(hidden, 2), nn.Tanh())
        self.shift = nn.Sequential(nn.Linear(2, hidden), nn.Tanh(), nn.Linear(hidden, 2))

    def forward(self, x):
        kept = x * self.mask
        s = self.scale(kept) * (1 - self.mask)
        t = self.shift(kept) * (1 - self.mask)
        return kept + (1 - self.mask) * (x * torch.exp(s) + t), s.sum(-1)

    def inverse(self, z):
        kept = z * self.mask
        s = self.scale(kept) * (1 - self.mask)
        t = self.shift(kept) * (1 - self.mask)
        return kept + (1 - self.mask) * (z - t) * torch.exp(-s)


class ActNorm(nn.Module):
    """Starts from the statistics of the first batch it meets."""

    def __init__(self, dim):
        super().__init__()
        self.loc = nn.Parameter(torch.zeros(dim))
        self.log_scale = nn.Parameter(torch.zeros(dim))
        self.register_buffer("ready", torch.tensor(False))

    def forward(self, x):
        if self.training and not self.ready:
            with torch.no_grad():
                self.log_scale.copy_(-torch.log(x.std(0) + 1e-6))
                self.loc.copy_(-x.mean(0))
                self.ready.fill_(True)
        return (x + self.loc) * torch.exp(self.log_scale), self.log_scale.sum().expand(len(x))

    def inverse(self, z):
        return z * torch.exp(-self.log_scale) - self.loc


class Flow(nn.Module):
    def __init__(self, depth=4):
        super().__init__()
        layers = []
        for i in range(depth):
            layers += [ActNorm(2), Coupling(torch.tensor([1.0, 0.0]) if i % 2 else torch.tensor([0.0, 1.0]))]
        self.layers = nn.ModuleList(layers)
        self.register_buffer("mean", torch.zeros(2))
        self.register_buffer("cov", torch.eye(2))

    @property
    def prior(self):
        return MultivariateNormal(self.mean, self.cov)

    def log_prob(self, x):
        logdet = torch.zeros(len(x))
        for layer in self.layers:
            x, ld = layer(x)
            logdet = logdet + ld
        return self.prior.log_prob(x) + logdet

    @torch.no_grad()
    def sample(self, n):
        z = self.prior.sample((n,))
        for layer in reversed(self.layers):
            z = layer.inverse(z)
        return z


def rings(n):
    angle = torch.rand(n) * 2 * math.pi
    radius = 2 + 0.2 * torch.randn(n)
    return torch.stack([radius * angle.cos() + 1, radius * angle.sin() * 0.5], 1)


torch.manual_seed(14)
flow = Flow()
optimizer = torch.optim.Adam(flow.parameters(), lr=3e-3)
scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.99)
holdout = rings(512)
for step in range(1, 101):
    flow.train()
    loss = -flow.log_prob(rings(128)).mean()
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(flow.parameters(), 5.0)
    optimizer.step()
    scheduler.step()
    if step % 25 == 0:
        flow.eval()
        with torch.no_grad():
            nll = -flow.log_prob(holdout).mean().item()
        print(step, loss.item(), nll, flow.sample(100).std(0).tolist())
