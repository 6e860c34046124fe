"""Contrastive pretraining on unlabelled vibration windows, then a probe on a few labelled ones."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

LEN, CLASSES = 128, 6
CFG = dict(batch=128, epochs=7, lr=1e-3, temp=0.2, seed=5)


def machine_windows(n, rng):
    y = rng.integers(0, CLASSES, n)
    t = np.arange(LEN)
    x = np.zeros((n, LEN))
    for i, c in enumerate(y):
        main, side = 5 + 2 * (c % 3), 14 + 5 * (c // 3)
        p = rng.uniform(0, 2 * np.pi, 2)
        x[i] += np.sin(2 * np.pi * main * t / LEN + p[0])
        x[i] += 0.8 * np.sin(2 * np.pi * side * t / LEN + p[1])
        x[i] *= rng.lognormal(0, 0.6)
        x[i] += rng.normal(0, 1.0) + rng.normal(0, 1.2) * np.linspace(-1, 1, LEN)
    x += rng.normal(0, 0.35, x.shape)
    return torch.tensor(x, dtype=torch.float32), torch.tensor(y)


class Jitter:
    """Random circular shift, gain, offset, drift and noise; own stream of random numbers."""

    def __init__(self, seed):
        self.seed = seed

    def __call__(self, x, step):
        g = torch.Generator().manual_seed(self.seed + step)
        n = len(x)
        shift = torch.randint(0, LEN, (n, 1), generator=g)
        x = x.gather(1, (torch.arange(LEN)[None] + shift) % LEN)
        gain = torch.exp(0.6 * torch.randn(n, 1, generator=g))
        slope = 1.2 * torch.randn(n, 1, generator=g) * torch.linspace(-1, 1, LEN)[None]
        x = x * gain + torch.randn(n, 1, generator=g) + slope
        return x + 0.3 * torch.randn(x.shape, generator=g)


class Encoder(nn.Module):
    def __init__(self, dim=48):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv1d(1, 16, 9, stride=2, padding=4), nn.BatchNorm1d(16), nn.ReLU(),
            nn.Conv1d(16, 32, 9, stride=2, padding=4), nn.BatchNorm1d(32), nn.ReLU(),
            nn.Conv1d(32, dim, 5, stride=2, padding=2), nn.BatchNorm1d(dim), nn.ReLU())
        self.flat = nn.Linear(dim * LEN // 8, dim)
        self.proj = nn.Sequential(nn.ReLU(), nn.Linear(dim, 32))

    def features(self, x):
        return self.flat(self.body(x[:, None]).flatten(1))

    def forward(self, x):
        return F.normalize(self.proj(self.features(x)), dim=1)


def nt_xent(a, b, temp):
    z = torch.cat([a, b])
    sim = z @ z.t() / temp
    sim.fill_diagonal_(-1e9)
    n = len(a)
    pos = torch.cat([torch.arange(n, 2 * n), torch.arange(n)])
    return F.cross_entropy(sim, pos)


def probe(enc, few, test):
    enc.eval()
    with torch.no_grad():
        fx, tx = enc.features(few[0]), enc.features(test[0])
    mu, sd = fx.mean(0), fx.std(0) + 1e-5
    fx, tx = (fx - mu) / sd, (tx - mu) / sd
    lin = nn.Linear(fx.shape[1], CLASSES)
    opt = torch.optim.Adam(lin.parameters(), lr=0.02, weight_decay=1e-3)
    for _ in range(200):
        opt.zero_grad()
        F.cross_entropy(lin(fx), few[1]).backward()
        opt.step()
    return (lin(tx).argmax(1) == test[1]).float().mean().item()


def main(cfg):
    torch.manual_seed(cfg["seed"])
    rng = np.random.default_rng(cfg["seed"])
    pool, _ = machine_windows(3000, rng)
    few, test = machine_windows(60, rng), machine_windows(2000, rng)
    enc, jitter = Encoder(), Jitter(cfg["seed"])
    opt = torch.optim.Adam(enc.parameters(), lr=cfg["lr"], weight_decay=1e-5)
    step = 0
    for epoch in range(cfg["epochs"]):
        enc.train()
        losses = []
        for idx in torch.randperm(len(pool)).split(cfg["batch"]):
            x = pool[idx]
            v1, v2 = jitter(x, step), jitter(x, step)
            loss = nt_xent(enc(v1), enc(v2), cfg["temp"])
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            losses.append(loss.item())
            step += 1
        print(f"epoch {epoch:2d} nt-xent {np.mean(losses):.3f}")
    print(f"probe accuracy {probe(enc, few, test):.4f}")


main(CFG)
