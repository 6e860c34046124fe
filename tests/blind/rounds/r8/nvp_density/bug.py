"""RealNVP density model of six correlated sensor channels."""
import argparse
import math
import numpy as np
import torch
import torch.nn as nn


class Coupling(nn.Module):
    def __init__(self, dim, hidden, mask):
        super().__init__()
        self.register_buffer("mask", mask)
        self.net = nn.Sequential(nn.Linear(dim, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh(),
                                 nn.Linear(hidden, 2 * dim))
        nn.init.normal_(self.net[-1].weight, std=0.01)
        nn.init.zeros_(self.net[-1].bias)

    def forward(self, x):
        kept = x * self.mask
        s, t = self.net(kept).chunk(2, dim=1)
        s = torch.tanh(s) * (1 - self.mask)
        t = t * (1 - self.mask)
        return x * torch.exp(s) + t, s.sum(1)

    def inverse(self, z):
        kept = z * self.mask
        s, t = self.net(kept).chunk(2, dim=1)
        s = torch.tanh(s) * (1 - self.mask)
        t = t * (1 - self.mask)
        return (z - t) * torch.exp(-s)


class RealNVP(nn.Module):
    def __init__(self, dim, depth=6, hidden=32):
        super().__init__()
        self.dim = dim
        layers = []
        for _ in range(depth):
            mask = (torch.arange(dim) % 2).float()
            layers.append(Coupling(dim, hidden, mask))
        self.layers = nn.ModuleList(layers)

    def log_prob(self, x):
        logdet = x.new_zeros(len(x))
        for layer in self.layers:
            x, ld = layer(x)
            logdet = logdet + ld
        base = -0.5 * (x ** 2).sum(1) - 0.5 * self.dim * math.log(2 * math.pi)
        return base + logdet

    @torch.no_grad()
    def sample(self, n):
        z = torch.randn(n, self.dim)
        for layer in reversed(self.layers):
            z = layer.inverse(z)
        return z


def channels(n, rng):
    u = rng.standard_normal((n, 3))
    mode = rng.choice([-1.5, 1.5], size=n)
    x = np.stack([
        u[:, 0] + mode,
        (u[:, 0] + mode) ** 2 * 0.4 + 0.3 * rng.standard_normal(n),
        np.sin(1.5 * u[:, 1]) + 0.2 * rng.standard_normal(n),
        u[:, 1] * 1.2 + 0.3 * rng.standard_normal(n),
        np.abs(u[:, 2]) + 0.15 * rng.standard_normal(n),
        u[:, 2] - 0.5 * u[:, 1] + 0.2 * rng.standard_normal(n),
    ], axis=1)
    return torch.from_numpy(x.astype(np.float32))


def skew(x):
    c = x - x.mean(0)
    return (c ** 3).mean(0) / c.std(0) ** 3


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=20)
    p.add_argument("--batch-size", type=int, default=200)
    p.add_argument("--lr", type=float, default=3e-3)
    args = p.parse_args()
    torch.manual_seed(7)
    rng = np.random.default_rng(7)
    train, val = channels(5000, rng), channels(1500, rng)
    mu, sd = train.mean(0), train.std(0)
    train, val = (train - mu) / sd, (val - mu) / sd

    flow = RealNVP(dim=6)
    opt = torch.optim.Adam(flow.parameters(), lr=args.lr)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=args.epochs)
    for epoch in range(args.epochs):
        flow.train()
        nll_sum = 0.0
        for idx in torch.randperm(len(train)).split(args.batch_size):
            nll = -flow.log_prob(train[idx]).mean()
            opt.zero_grad()
            nll.backward()
            nn.utils.clip_grad_norm_(flow.parameters(), 5.0)
            opt.step()
            nll_sum += nll.item() * len(idx)
        sched.step()
        if epoch % 4 == 0 or epoch == args.epochs - 1:
            flow.eval()
            with torch.no_grad():
                val_nll = -flow.log_prob(val).mean().item()
            print(f"epoch {epoch:2d}  train nll {nll_sum / len(train):.3f}  val nll {val_nll:.3f}")
    flow.eval()
    print("skewness, data   ", [round(v, 2) for v in skew(val).tolist()])
    print("skewness, samples", [round(v, 2) for v in skew(flow.sample(3000)).tolist()])


if __name__ == "__main__":
    main()
