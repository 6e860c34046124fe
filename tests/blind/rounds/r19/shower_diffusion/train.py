"""Fast simulation: a small DDPM over calorimeter shower summaries."""
import json
import math
import sys

import numpy as np
import torch
import torch.nn as nn

T = 60
STEPS = 2500
BATCH = 256
LR = 2e-3


class Normalizer:
    def __init__(self, path):
        with open(path) as f:
            s = json.load(f)
        self.mean, self.std = torch.tensor(s["mean"]), torch.tensor(s["std"])

    def encode(self, x):
        return (x - self.mean) / self.std

    def decode(self, z):
        return z * self.std + self.mean


def linear_schedule(n, lo=1e-3, hi=0.25):
    return torch.linspace(lo, hi, n)


class Denoiser(nn.Module):
    def __init__(self, dim, width=128):
        super().__init__()
        self.time = nn.Sequential(nn.Linear(16, width), nn.SiLU())
        self.inp = nn.Linear(dim, width)
        self.l1, self.l2 = nn.Linear(width, width), nn.Linear(width, width)
        self.out = nn.Linear(width, dim)
        self.register_buffer("freqs", 2.0 ** torch.arange(8) * math.pi / 2)

    def forward(self, x, t):
        a = (t.float() / T)[:, None] * self.freqs
        e = self.time(torch.cat([a.sin(), a.cos()], 1))
        h = nn.functional.silu(self.inp(x) + e)
        h = h + nn.functional.silu(self.l1(h) + e)
        h = h + nn.functional.silu(self.l2(h) + e)
        return self.out(h)


class Diffusion:
    def __init__(self, net):
        self.net = net
        self.beta = linear_schedule(T)
        self.alpha = 1 - self.beta
        self.abar = torch.cumprod(self.alpha, 0)

    def loss(self, x0):
        t = torch.randint(0, T, (len(x0),))
        noise = torch.randn_like(x0)
        a = self.abar[t][:, None]
        xt = a.sqrt() * x0 + (1 - a).sqrt() * noise
        return ((self.net(xt, t) - noise) ** 2).mean()

    @torch.no_grad()
    def sample(self, n, dim):
        self.net.eval()
        x = torch.randn(n, dim)
        for i in reversed(range(T)):
            eps = self.net(x, torch.full((n,), i))
            x = (x - self.beta[i] / (1 - self.abar[i]).sqrt() * eps) / self.alpha[i].sqrt()
            if i:
                var = self.beta[i] * (1 - self.abar[i - 1]) / (1 - self.abar[i])
                x = x + var.sqrt() * torch.randn_like(x)
        return x


def sliced_wasserstein(a, b, n_proj=200):
    g = torch.Generator().manual_seed(0)
    v = torch.randn(a.shape[1], n_proj, generator=g)
    v = v / v.norm(dim=0)
    sa, sb = (a @ v).sort(0).values, (b @ v).sort(0).values
    return (sa - sb).abs().mean().item()


def main(folder):
    torch.manual_seed(0)
    data = np.load(f"{folder}/showers.npz")
    train, held = torch.from_numpy(data["train"]), torch.from_numpy(data["heldout"])
    norm = Normalizer(f"{folder}/stats.json")
    z = norm.encode(train)
    net = Denoiser(z.shape[1])
    ddpm = Diffusion(net)
    opt = torch.optim.Adam(net.parameters(), lr=LR)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, STEPS)
    running = 0.0
    for step in range(1, STEPS + 1):
        batch = z[torch.randint(0, len(z), (BATCH,))]
        loss = ddpm.loss(batch)
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        running += loss.item()
        if step % 250 == 0:
            print(f"step {step} loss {running / 250:.4f}")
            running = 0.0
    fake = norm.decode(ddpm.sample(len(held), z.shape[1]))
    scale = held.std(0)
    print("generated mean", [round(v, 2) for v in fake.mean(0).tolist()])
    print("held-out  mean", [round(v, 2) for v in held.mean(0).tolist()])
    print(f"sliced wasserstein {sliced_wasserstein(fake / scale, held / scale):.4f}")


if __name__ == "__main__":
    main(sys.argv[1])
