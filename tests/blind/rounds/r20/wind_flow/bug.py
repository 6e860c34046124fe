"""RealNVP density model of wind vectors (u, v) at an offshore mast; used to draw scenarios."""
import logging
import math

import numpy as np
import torch
import torch.nn as nn

logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
logger = logging.getLogger(__name__)


def observe(n, seed):
    rng = np.random.default_rng(seed)
    regime = rng.choice(3, n, p=[0.5, 0.3, 0.2])
    speed = np.where(regime == 0, rng.normal(9, 0.8, n), np.where(regime == 1, rng.normal(5, 0.5, n), rng.gamma(4, 0.4, n)))
    direction = np.where(regime == 0, rng.normal(0.6, 0.55, n),
                         np.where(regime == 1, rng.normal(3.6, 0.45, n), rng.uniform(0, 2 * np.pi, n)))
    uv = np.stack([speed * np.cos(direction), speed * np.sin(direction)], 1)
    return torch.tensor(uv, dtype=torch.float32)


class Coupling(nn.Module):
    def __init__(self, dim, mask, hidden=64):
        super().__init__()
        self.register_buffer("mask", mask)
        self.net = nn.Sequential(
            nn.Linear(dim, hidden), nn.SiLU(),
            nn.Linear(hidden, hidden), nn.SiLU(),
            nn.Linear(hidden, 2 * dim),
        )
        nn.init.zeros_(self.net[-1].weight)
        nn.init.zeros_(self.net[-1].bias)

    def params(self, kept):
        s, t = self.net(kept).chunk(2, dim=-1)
        s = 1.5 * torch.tanh(s / 1.5)
        return s * (1 - self.mask), t * (1 - self.mask)

    def forward(self, x):
        s, t = self.params(x * self.mask)
        return x * torch.exp(s) + t, s.sum(-1)

    def inverse(self, z):
        s, t = self.params(z * self.mask)
        return (z - t) * torch.exp(-s)


class RealNVP(nn.Module):
    def __init__(self, dim=2, layers=8):
        super().__init__()
        masks = [torch.tensor([float((i + j) % 2) for j in range(dim)]) for i in range(layers)]
        self.layers = nn.ModuleList(Coupling(dim, m) for m in masks)
        self.dim = dim

    def transform(self, x):
        log_det = torch.zeros(len(x))
        for layer in self.layers:
            x, ld = layer(x)
            log_det = ld
        return x, log_det

    def log_prob(self, x):
        z, log_det = self.transform(x)
        base = -0.5 * (z ** 2).sum(-1) - 0.5 * self.dim * math.log(2 * math.pi)
        return base + log_det

    @torch.no_grad()
    def sample(self, n):
        z = torch.randn(n, self.dim)
        for layer in reversed(self.layers):
            z = layer.inverse(z)
        return z


def energy_distance(a, b):
    return (2 * torch.cdist(a, b).mean() - torch.cdist(a, a).mean() - torch.cdist(b, b).mean()).item()


def main():
    torch.manual_seed(4)
    train, valid, test = observe(6000, 1), observe(1500, 2), observe(2000, 3)
    mu, sd = train.mean(0), train.std(0)
    train, valid, test = [(d - mu) / sd for d in (train, valid, test)]

    flow = RealNVP()
    opt = torch.optim.Adam(flow.parameters(), lr=2e-3)
    epochs, bs = 18, 256
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, epochs)
    for epoch in range(epochs):
        flow.train()
        perm = torch.randperm(len(train))
        for idx in perm.split(bs):
            loss = -flow.log_prob(train[idx]).mean()
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(flow.parameters(), 5.0)
            opt.step()
        sched.step()
        flow.eval()
        with torch.no_grad():
            nll = -flow.log_prob(valid).mean().item()
        if epoch % 3 == 0 or epoch == epochs - 1:
            logger.info("epoch %02d train nll %.3f valid nll %.3f", epoch, loss.item(), nll)

    gauss = torch.randn(2000, 2)
    logger.info("gaussian fit energy distance %.4f", energy_distance(gauss, test))
    scen = flow.sample(2000)
    print(f"energy_distance {energy_distance(scen, test):.4f}")


if __name__ == "__main__":
    main()
