"""Denoising diffusion model of wind vectors (u, v) at an offshore mast."""
import argparse
import math

import torch
import torch.nn as nn


def wind_vectors(n):
    """Three prevailing sectors, Weibull-like speeds."""
    sector = torch.multinomial(torch.tensor([0.5, 0.3, 0.2]), n, replacement=True)
    heading = torch.tensor([0.6, 2.6, 4.6])[sector] + 0.22 * torch.randn(n)
    speed = torch.tensor([1.4, 0.9, 1.9])[sector] + 0.18 * torch.randn(n)
    return torch.stack([speed * heading.cos(), speed * heading.sin()], 1)


class Denoiser(nn.Module):
    def __init__(self, width=96, freqs=6):
        super().__init__()
        self.register_buffer("freq", math.pi * 2.0 ** torch.arange(freqs).float() / 2)
        self.net = nn.Sequential(
            nn.Linear(2 + 2 * freqs, width), nn.SiLU(),
            nn.Linear(width, width), nn.SiLU(),
            nn.Linear(width, width), nn.SiLU(),
            nn.Linear(width, 2))

    def forward(self, x, t):
        angle = t[:, None] * self.freq
        return self.net(torch.cat([x, angle.sin(), angle.cos()], 1))


class Diffusion:
    def __init__(self, steps):
        self.steps = steps
        self.beta = torch.linspace(1e-4, 0.08, steps)
        self.alpha = 1 - self.beta
        self.abar = torch.cumprod(self.alpha, 0)

    def loss(self, model, x0):
        k = torch.randint(0, self.steps, (len(x0),))
        noise = torch.randn_like(x0)
        a = self.abar[k][:, None]
        xk = a.sqrt() * x0 + (1 - a).sqrt() * noise
        return ((model(xk, k.float() / self.steps) - noise) ** 2).mean()

    @torch.no_grad()
    def sample(self, model, n):
        x = torch.randn(n, 2)
        for k in reversed(range(self.steps)):
            t = torch.full((n,), float(k))
            eps = model(x, t)
            x = (x - self.beta[k] / (1 - self.abar[k]).sqrt() * eps) / self.alpha[k].sqrt()
            if k > 0:
                x = x + self.beta[k].sqrt() * torch.randn_like(x)
        return x


def energy_distance(a, b):
    n, m = len(a), len(b)
    return (2 * torch.cdist(a, b).mean()
            - torch.cdist(a, a).sum() / (n * (n - 1))
            - torch.cdist(b, b).sum() / (m * (m - 1))).item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--iters", type=int, default=1600)
    ap.add_argument("--batch", type=int, default=192)
    ap.add_argument("--steps", type=int, default=100)
    ap.add_argument("--lr", type=float, default=2e-3)
    args = ap.parse_args()
    torch.manual_seed(31)

    data = wind_vectors(6000)
    train, held_out = data[:4500], data[4500:]
    mean, std = train.mean(0), train.std(0)
    train = (train - mean) / std

    model, process = Denoiser(), Diffusion(args.steps)
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=1e-5)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, args.iters)
    running = 0.0
    for it in range(1, args.iters + 1):
        batch = train[torch.randint(0, len(train), (args.batch,))]
        loss = process.loss(model, batch)
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        running += loss.item() / 400
        if it % 400 == 0:
            print(f"iter {it} loss {running:.4f}")
            running = 0.0

    model.eval()
    samples = process.sample(model, 1500) * std + mean
    print(f"energy distance to held-out winds: {energy_distance(samples, held_out):.4f}")


if __name__ == "__main__":
    main()
