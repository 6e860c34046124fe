"""Annealed Langevin sampling of a 2-D toy density with a noise conditional score network."""
import math
import time

import numpy as np
import torch
import torch.nn as nn


def two_moons(n, rng):
    upper = rng.random(n) < 0.5
    t = rng.uniform(0, math.pi, n)
    x = np.where(upper, np.cos(t), 1 - np.cos(t)) - 0.5
    y = np.where(upper, np.sin(t), 0.5 - np.sin(t)) - 0.25
    pts = 2.0 * np.stack([x, y], 1) + 0.2 * rng.standard_normal((n, 2))
    return torch.tensor(pts, dtype=torch.float32)


class ScoreNet(nn.Module):
    def __init__(self, hidden=96, n_freq=8):
        super().__init__()
        self.register_buffer("freqs", torch.linspace(0.5, 4.0, n_freq))
        self.inp = nn.Linear(2 + 2 * n_freq, hidden)
        self.mid = nn.ModuleList([nn.Linear(hidden, hidden) for _ in range(2)])
        self.out = nn.Linear(hidden, 2)
        self.act = nn.SiLU()

    def forward(self, x, sigma):
        t = torch.log(sigma) * self.freqs
        h = torch.cat([x / torch.sqrt(1 + sigma ** 2), t.sin(), t.cos()], 1)
        h = self.act(self.inp(h))
        for layer in self.mid:
            h = h + self.act(layer(h))
        return self.out(h) / sigma


def dsm_loss(net, x, sigmas):
    idx = torch.randint(len(sigmas), (x.shape[0],))
    sigma = sigmas[idx].unsqueeze(1)
    noise = torch.randn_like(x)
    perturbed = x + sigma * noise
    target = -noise / sigma ** 2
    score = net(perturbed, sigma)
    per_sample = ((score - target) ** 2).sum(1)
    return (per_sample * sigma.squeeze(1) ** 2).mean()


@torch.no_grad()
def sample(net, n, sigmas, steps=60, eps=0.1):
    x = torch.randn(n, 2) * sigmas[0]
    for sigma in sigmas:
        step = eps * sigma ** 2
        s = sigma.expand(n, 1)
        for _ in range(steps):
            x = x + step * net(x, s) + torch.sqrt(2 * step) * torch.randn_like(x)
    return x


def sliced_wasserstein(a, b, n_proj=200):
    ang = torch.linspace(0, math.pi, n_proj + 1)[:-1]
    dirs = torch.stack([ang.cos(), ang.sin()])
    pa, pb = (a @ dirs).sort(0).values, (b @ dirs).sort(0).values
    return (pa - pb).abs().mean().item()


def mmd(a, b, widths=(0.15, 0.4, 1.0)):
    def k(u, v):
        d = torch.cdist(u, v) ** 2
        return sum(torch.exp(-d / (2 * w * w)).mean() for w in widths)
    return (k(a, a) + k(b, b) - 2 * k(a, b)).clamp(min=0).sqrt().item()


def main():
    torch.manual_seed(3)
    rng = np.random.default_rng(3)
    train, held_out = two_moons(20000, rng), two_moons(1000, rng)
    sigmas = torch.tensor(np.geomspace(3.0, 0.1, 10), dtype=torch.float32)

    net = ScoreNet()
    ema = ScoreNet()
    ema.load_state_dict(net.state_dict())
    opt = torch.optim.Adam(net.parameters(), lr=3e-3)
    n_steps = 1750
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, n_steps)
    start, running = time.time(), 0.0
    for step in range(1, n_steps + 1):
        batch = train[torch.randint(len(train), (256,))]
        loss = dsm_loss(net, batch, sigmas)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 5.0)
        opt.step()
        sched.step()
        with torch.no_grad():
            for p, q in zip(ema.parameters(), net.parameters()):
                p.lerp_(q, 0.01)
        running += loss.item()
        if step % 250 == 0:
            print(f"step {step:5d}  dsm loss {running / 250:.4f}  {time.time() - start:.1f}s")
            running = 0.0

    ema.eval()
    fake = sample(ema, 1000, sigmas)
    prior = torch.randn(1000, 2) * train.std(0) + train.mean(0)
    print(f"gaussian fit   sw {sliced_wasserstein(prior, held_out):.4f}  mmd {mmd(prior, held_out):.4f}")
    print(f"score sampler  sw {sliced_wasserstein(fake, held_out):.4f}  mmd {mmd(fake, held_out):.4f}")


if __name__ == "__main__":
    main()
