"""DDPM on a 2-D pinwheel; samples come from the averaged weights."""
import copy
import math

import numpy as np
import torch
import torch.nn as nn

T = 60
BATCH = 256
STEPS = 2000
DECAY = 0.995


def pinwheel(n, seed):
    rng = np.random.default_rng(seed)
    arm = rng.integers(0, 5, n)
    r = 1.2 + 0.35 * rng.normal(size=n)
    side = 0.09 * rng.normal(size=n)
    angle = 2 * np.pi * arm / 5 + 0.45 * np.exp(r - 1)
    x = np.stack([r * np.cos(angle) - side * np.sin(angle),
                  r * np.sin(angle) + side * np.cos(angle)], axis=1)
    return torch.tensor(x, dtype=torch.float32)


class Denoiser(nn.Module):
    def __init__(self, width=96, n_freq=8):
        super().__init__()
        self.register_buffer("freq", 2.0 ** torch.arange(n_freq) * math.pi)
        self.net = nn.Sequential(
            nn.Linear(2 + 2 * n_freq, width), nn.SiLU(),
            nn.Linear(width, width), nn.SiLU(),
            nn.Linear(width, width), nn.SiLU(),
            nn.Linear(width, 2),
        )

    def forward(self, x, t):
        phase = (t.float() / T)[:, None] * self.freq
        return self.net(torch.cat([x, phase.sin(), phase.cos()], dim=1))


class Schedule:
    def __init__(self):
        self.beta = torch.linspace(1e-3, 0.16, T)
        self.alpha = 1 - self.beta
        self.bar = torch.cumprod(self.alpha, dim=0)

    def noisy(self, x0, t, eps):
        a = self.bar[t][:, None]
        return a.sqrt() * x0 + (1 - a).sqrt() * eps

    @torch.no_grad()
    def sample(self, model, n, gen):
        model.eval()
        x = torch.randn(n, 2, generator=gen)
        for i in reversed(range(T)):
            eps = model(x, torch.full((n,), i))
            x = (x - self.beta[i] / (1 - self.bar[i]).sqrt() * eps) / self.alpha[i].sqrt()
            if i > 0:
                prev = self.bar[i - 1]
                var = self.beta[i] * (1 - prev) / (1 - self.bar[i])
                x = x + var.sqrt() * torch.randn(n, 2, generator=gen)
        return x


@torch.no_grad()
def update_average(avg, model, decay):
    for p_avg, p in zip(avg.parameters(), model.parameters()):
        p_avg = decay * p_avg + (1 - decay) * p


def sliced_distance(a, b, n_dirs=64, seed=0):
    g = torch.Generator().manual_seed(seed)
    d = torch.randn(2, n_dirs, generator=g)
    d = d / d.norm(dim=0)
    pa, pb = (a @ d).sort(dim=0).values, (b @ d).sort(dim=0).values
    return (pa - pb).abs().mean().item()


def main():
    torch.manual_seed(0)
    data = pinwheel(8000, seed=1)
    held = pinwheel(2000, seed=2)
    centre, spread = data.mean(0), data.std()
    data = (data - centre) / spread
    held = (held - centre) / spread

    model = Denoiser()
    avg = copy.deepcopy(model).requires_grad_(False)
    schedule = Schedule()
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    lr = torch.optim.lr_scheduler.CosineAnnealingLR(opt, STEPS, eta_min=1e-4)
    running = []
    for step in range(1, STEPS + 1):
        model.train()
        x0 = data[torch.randint(len(data), (BATCH,))]
        t = torch.randint(T, (BATCH,))
        eps = torch.randn_like(x0)
        loss = (model(schedule.noisy(x0, t, eps), t) - eps).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        lr.step()
        update_average(avg, model, min(DECAY, step / (step + 10)))
        running.append(loss.item())
        if step % 500 == 0:
            gen = torch.Generator().manual_seed(5)
            dist = sliced_distance(schedule.sample(avg, 2000, gen), held)
            print(f"step {step:5d}  train loss {np.mean(running[-500:]):.4f}  "
                  f"val sliced distance {dist:.4f}")
    ref = sliced_distance(data[:2000], held)
    print(f"final sliced distance {dist:.4f} (real data against held-out {ref:.4f})")


if __name__ == "__main__":
    main()
