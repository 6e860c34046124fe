"""When do silver eels pass a weir? Density of the passage hour (hours after sunset) for a night, mixture network."""
import argparse
import math

import numpy as np
import torch
from torch import nn


def nights(n, seed):
    rng = np.random.default_rng(seed)
    flow = rng.gamma(3.0, 8.0, n)
    moon = rng.uniform(0, 1, n)
    temp = rng.normal(11, 3, n)
    turb = rng.gamma(2.0, 10.0, n)
    trend = rng.normal(0, 1.5, n)
    length = rng.normal(68, 9, n)
    early = 1 / (1 + np.exp(-(0.09 * (flow - 24) - 2.2 * (moon - 0.5) + 0.6 * trend)))
    mid = 1 / (1 + np.exp(-(0.35 * (temp - 11) - 0.8)))
    hour = np.zeros(n)
    for i in range(n):
        u = rng.random()
        if u < early[i]:
            hour[i] = rng.normal(1.4 + 0.03 * (temp[i] - 11) + 1.0 * moon[i], 0.35)
        elif rng.random() < mid[i]:
            hour[i] = rng.normal(4.8 + 0.02 * turb[i], 0.45)
        else:
            hour[i] = rng.normal(8.3 - 1.2 * moon[i] - 0.015 * (length[i] - 68), 0.40)
    x = np.stack([flow, moon, temp, turb, trend, length], 1)
    return torch.tensor(x, dtype=torch.float32), torch.tensor(hour, dtype=torch.float32)


class PassageMixture(nn.Module):
    def __init__(self, n_in, parts=4, width=48, cap=5.0):
        super().__init__()
        self.cap = cap
        self.trunk = nn.Sequential(nn.Linear(n_in, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU())
        self.share = nn.Linear(width, parts)
        self.centre = nn.Linear(width, parts)
        self.width = nn.Linear(width, parts)
        with torch.no_grad():
            self.centre.bias.copy_(torch.linspace(0.5, 9.5, parts))
            self.width.bias.fill_(0.3)

    def forward(self, x):
        z = self.trunk(x)
        share = torch.log_softmax(self.cap * torch.tanh(self.share(z) / self.cap), dim=1)
        return share, self.centre(z), self.width(z).clamp(-2.5, 2.0)


def log_density(share, centre, log_sd, hour):
    u = (hour[:, None] - centre) * torch.exp(-log_sd)
    part = -0.5 * u * u - log_sd - 0.5 * math.log(2 * math.pi)
    return torch.logsumexp(share + part, dim=1)


@torch.no_grad()
def hit_rate(model, x, hour, level=0.5):
    """Share of passages inside the hours that the model would keep the turbines shut (half of its mass)."""
    model.eval()
    share, centre, log_sd = model(x)
    grid = torch.linspace(-1.0, 12.0, 261)
    step = float(grid[1] - grid[0])
    dens = torch.stack([log_density(share, centre, log_sd, g.expand(len(x))) for g in grid], 1).exp()
    mass = dens / (dens.sum(1, keepdim=True) * step)
    cell = ((hour + 1.0) / step).round().long().clamp(0, len(grid) - 1)
    score = mass.gather(1, cell[:, None]).clamp_min(1e-6).log().mean().item()
    hours_shut = mass.sort(1, descending=True).values.cumsum(1).mul(step).lt(level).sum(1).float().mean() * step
    return score, hours_shut.item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=20)
    ap.add_argument("--batch", type=int, default=64)
    ap.add_argument("--lr", type=float, default=2e-3)
    args = ap.parse_args()
    torch.manual_seed(14)
    x, hour = nights(3000, 40)
    xv, hv = nights(800, 41)
    mean, std = x.mean(0), x.std(0)
    x, xv = (x - mean) / std, (xv - mean) / std

    model = PassageMixture(x.shape[1])
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, args.epochs)
    for epoch in range(args.epochs):
        model.train()
        total = 0.0
        for idx in torch.randperm(len(x)).split(args.batch):
            loss = -log_density(*model(x[idx]), hour[idx]).mean()
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            opt.step()
            total += loss.item() * len(idx)
        sched.step()
        if epoch % 4 == 0 or epoch == args.epochs - 1:
            score, shut = hit_rate(model, xv, hv)
            print(f"epoch {epoch:2d}  train loss {total / len(x):.3f}  val log score {score:.3f}  "
                  f"half of the mass in {shut:.2f} h")


if __name__ == "__main__":
    main()
