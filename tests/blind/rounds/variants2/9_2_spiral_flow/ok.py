import math
import torch
from torch import nn

torch.manual_seed(7)


def two_arcs(n):
    a = math.pi * torch.rand(n)
    flip = torch.rand(n) < 0.5
    x = torch.where(flip, 1 - a.cos(), a.cos())
    y = torch.where(flip, 0.5 - a.sin(), a.sin())
    return (torch.stack([x, y], 1) - torch.tensor([0.5, 0.25])) * 1.4 + 0.08 * torch.randn(n, 2)


class Coupling(nn.Module):
    def __init__(self, keep, hidden=32):
        super().__init__()
        self.keep = keep
        self.net = nn.Sequential(nn.Linear(1, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh(), nn.Linear(hidden, 2))

    def terms(self, fixed):
        s, t = self.net(fixed).chunk(2, dim=1)
        return 1.5 * torch.tanh(s), t

    def to_noise(self, x):
        fixed, moved = x[:, [self.keep]], x[:, [1 - self.keep]]
        s, t = self.terms(fixed)
        moved = (moved - t) * torch.exp(-s)
        parts = [fixed, moved] if self.keep == 0 else [moved, fixed]
        return torch.cat(parts, 1), -s.squeeze(1)

    def to_data(self, z):
        fixed, moved = z[:, [self.keep]], z[:, [1 - self.keep]]
        s, t = self.terms(fixed)
        moved = moved * torch.exp(s) + t
        parts = [fixed, moved] if self.keep == 0 else [moved, fixed]
        return torch.cat(parts, 1)


class Flow(nn.Module):
    def __init__(self, depth=6):
        super().__init__()
        self.steps = nn.ModuleList(Coupling(i % 2) for i in range(depth))

    def log_prob(self, x):
        total = x.new_zeros(len(x))
        for step in self.steps:
            x, change = step.to_noise(x)
            total = total + change
        return total - 0.5 * x.pow(2).sum(1) - math.log(2 * math.pi)

    def sample(self, n):
        z = torch.randn(n, 2)
        for step in reversed(self.steps):
            z = step.to_data(z)
        return z


flow = Flow()
opt = torch.optim.Adam(flow.parameters(), lr=3e-3)
held = two_arcs(1000)
for step in range(1, 301):
    flow.train()
    loss = -flow.log_prob(two_arcs(256)).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 60 == 0:
        flow.eval()
        with torch.no_grad():
            made = flow.sample(1000)
            near = torch.cdist(held, made).amin(1).mean()
            print(f"step {step} nll {loss.item():.3f} val {-flow.log_prob(held).mean().item():.3f} gap to samples {near.item():.3f}")
