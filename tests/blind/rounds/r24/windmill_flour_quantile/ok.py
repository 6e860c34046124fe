"""Median and upper-quantile forecast of flour output (kg/h) for a group of corn mills."""
import math
from functools import partial

import numpy as np
import torch

SEED, N, EPOCHS, BATCH = 11, 6000, 24, 64


def simulate(n, rng):
    wind = rng.weibull(2.1, n) * 7.5
    gust = wind * (1.0 + np.abs(rng.normal(0, 0.22, n)))
    direction = rng.uniform(0, 2 * np.pi, n)
    sail_area = rng.choice([62.0, 74.0, 88.0], n)
    cloth = rng.integers(0, 4, n) / 3.0
    moisture = rng.normal(14.0, 1.3, n)
    stones = rng.choice([1.0, 2.0], n, p=[0.7, 0.3])
    shelter = 1.0 - 0.3 * np.clip(np.cos(direction - 2.2), 0, 1)
    power = 0.02 * sail_area * (0.35 + 0.65 * cloth) * (np.clip(wind * shelter - 3.0, 0, 9)) ** 1.6
    brake = 1.0 / (1.0 + np.exp((gust - 17.0) / 1.2))
    flour = power * brake * (1.0 - 0.05 * (moisture - 14.0)) * np.where(stones > 1, 1.25, 1.0)
    flour = flour * np.exp(rng.normal(0, 0.08, n)) + np.abs(rng.normal(0, 0.4, n))
    return np.stack([wind, gust, np.sin(direction), np.cos(direction), sail_area, cloth, moisture, stones, flour], 1)


def init(sizes, gen):
    p = {}
    for i, (a, b) in enumerate(zip(sizes[:-1], sizes[1:])):
        p[f"w{i}"] = torch.randn(a, b, generator=gen) * math.sqrt(2.0 / a)
        p[f"b{i}"] = torch.zeros(b)
    return {k: v.requires_grad_() for k, v in p.items()}


def forward(p, x):
    depth = len(p) // 2
    for i in range(depth):
        x = x @ p[f"w{i}"] + p[f"b{i}"]
        if i < depth - 1:
            x = torch.nn.functional.silu(x)
    return x


def pinball(q, guess, truth):
    gap = truth - guess
    return torch.maximum(q * gap, (q - 1.0) * gap).mean()


def batches(n, size, gen):
    order = torch.randperm(n, generator=gen)
    for lo in range(0, n - size + 1, size):
        yield order[lo:lo + size]


def fit(q, x, y, gen):
    p = init([x.shape[1], 48, 48, 1], gen)
    objective = partial(pinball, q)
    opt = torch.optim.Adam(p.values(), lr=3e-3)
    plan = torch.optim.lr_scheduler.CosineAnnealingLR(opt, EPOCHS)
    for epoch in range(EPOCHS):
        seen = 0.0
        for count, idx in enumerate(batches(len(x), BATCH, gen), 1):
            loss = objective(forward(p, x[idx]), y[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            seen += loss.item()
        plan.step()
        if epoch % 6 == 5:
            print(f"q={q} epoch {epoch + 1} train pinball {seen / count:.4f}")
    return p


def main():
    torch.manual_seed(SEED)
    rng = np.random.default_rng(SEED)
    table = torch.tensor(simulate(N, rng), dtype=torch.float32)
    train, valid = table[: int(0.8 * N)], table[int(0.8 * N):]
    mu, sd = train.mean(0), train.std(0)
    xt, xv = ((t - mu)[:, :-1] / sd[:-1] for t in (train, valid))
    yt = ((train - mu) / sd)[:, -1:]
    gen = torch.Generator().manual_seed(SEED)
    truth = valid[:, -1].numpy()
    for q in (0.5, 0.9):
        p = fit(q, xt, yt, gen)
        with torch.no_grad():
            guess = (forward(p, xv).flatten() * sd[-1] + mu[-1]).numpy()
        print(f"q={q} valid MAE {np.abs(guess - truth).mean():.3f} kg/h, below forecast {np.mean(truth < guess):.3f}")


if __name__ == "__main__":
    main()
