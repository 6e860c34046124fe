"""DDPM on the two-moons distribution."""
import math
import torch
from torch import nn

T = 60


class Schedule:
    def __init__(self, lo=1e-3, hi=0.12):
        self.betas = torch.linspace(lo, hi, T)
        self.alphas = 1 - self.betas
        self.bar = torch.cumprod(self.alphas, 0)

    def noisy(self, x0, t, eps):
        a = self.bar[t][:, None]
        return a.sqrt() * x0 + (1 - a).sqrt() * eps


def moons(n):
    a = torch.rand(n) * math.pi
    up = torch.rand(n) < 0.5
    x = torch.where(up, a.cos(), 1 - a.cos()) - 0.5
    y = torch.where(up, a.sin(), 0.5 - a.sin()) - 0.25
    return torch.stack([x, y], 1) * 1.3 + 0.05 * torch.randn(n, 2)


class Denoiser(nn.Module):
    def __init__(self, h=64):
        super().__init__()
        self.emb = nn.Embedding(T, 16)
        self.net = nn.Sequential(nn.Linear(18, h), nn.SiLU(), nn.Linear(h, h), nn.SiLU(), nn.Linear(h, 2))

    def forward(self, x, t):
        return self.net(torch.cat([x, self.emb(t)], 1))


@torch.no_grad()
def sample(model, sch, n):
    x = torch.randn(n, 2)
    for t in reversed(range(T)):
        eps = model(x, torch.full((n,), t))
        x = (x - sch.betas[t] / (1 - sch.bar[t]).sqrt() * eps) / sch.alphas[t].sqrt()
        if t > 0:
            x = x + sch.betas[t].sqrt() * torch.randn_like(x)
    return x


def energy(a, b):
    return (2 * torch.cdist(a, b).mean() - torch.cdist(a, a).mean() - torch.cdist(b, b).mean()).item()


def main():
    torch.manual_seed(9)
    sch, model = Schedule(), Denoiser()
    data = moons(4000)
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    running = 0.0
    for step in range(1, 2001):
        x0 = data[torch.randint(0, len(data), (128,))]
        t = torch.randint(0, T, (128,))
        eps = torch.randn_like(x0)
        loss = (model(sch.noisy(x0, t, eps), t) - eps).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        running += loss.item()
        if step % 500 == 0:
            print(f"step {step} loss {running / 500:.4f}")
            running = 0.0
    model.eval()
    print("final energy distance of samples", energy(sample(model, sch, 1000), moons(1000)))


main()
