import csv
import json
import os

import numpy as np
import torch
from torch import nn

BINS = 48
WIDTH = 64


def pluck(rng, n):
    """Tap spectra of tines: fundamental, stretched overtone, bridge rattle."""
    grid = np.arange(BINS)[None, :]
    f0 = rng.uniform(6.0, 13.0, n)
    stretch = rng.uniform(-90.0, 90.0, n)
    ratio = 2.9 * 2 ** (3 * stretch / 1200)
    width = rng.uniform(0.8, 1.8, n)
    strike = rng.uniform(0.3, 1.0, n)
    rattle = rng.uniform(0.0, 0.4, n)
    peak = lambda c, a: a[:, None] * np.exp(-0.5 * ((grid - c[:, None]) / width[:, None]) ** 2)
    s = peak(f0, np.ones(n)) + peak(f0 * ratio, strike) + peak(f0 * 1.6, rattle) + 0.02 * np.abs(rng.normal(size=(n, BINS)))
    return s.astype(np.float32), stretch, np.stack([f0, ratio, width, strike, rattle, f0 * ratio], 1)


def pretrain(rng):
    """The workshop's bench model: kernels are kept as (inputs, outputs), as the bench software writes them."""
    torch.manual_seed(5)
    x, _, y = pluck(rng, 6000)
    x, y = torch.tensor(x), torch.tensor((y - y.mean(0)) / y.std(0), dtype=torch.float32)
    net = nn.Sequential(nn.Linear(BINS, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(),
                        nn.Linear(WIDTH, y.shape[1]))
    opt = torch.optim.Adam(net.parameters(), lr=3e-3)
    steps = 1500
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, steps)
    for _ in range(steps):
        i = torch.from_numpy(rng.integers(0, len(x), 128))
        loss = (net(x[i]) - y[i]).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
    return [(m.weight.detach().t().numpy().copy(), m.bias.detach().numpy().copy()) for m in net if isinstance(m, nn.Linear)][:3]


def convert(kernels, by_shape):
    shapes = [(WIDTH, BINS), (WIDTH, WIDTH), (WIDTH, WIDTH)]
    state = {}
    for k, ((kernel, bias), shape) in enumerate(zip(kernels, shapes)):
        if by_shape:
            weight = kernel if kernel.shape == shape else kernel.T
        else:
            weight = kernel.T
        state[f"layers.{k}.weight"] = torch.tensor(np.ascontiguousarray(weight))
        state[f"layers.{k}.bias"] = torch.tensor(bias)
    return state


def main():
    rng = np.random.default_rng(88)
    kernels = pretrain(rng)
    spectra, stretch, _ = pluck(rng, 620)
    stretch = stretch + rng.normal(0, 2.0, len(stretch))
    for side in ("bug", "ok"):
        os.makedirs(side, exist_ok=True)
        torch.save(convert(kernels, side == "bug"), f"{side}/bench_encoder.pt")
        with open(f"{side}/tines.csv", "w", newline="") as f:
            w = csv.writer(f)
            w.writerow(["tine", "stretch_cents"] + [f"bin_{b:02d}" for b in range(BINS)])
            for i in range(len(spectra)):
                w.writerow([f"T{i:04d}", f"{stretch[i]:.1f}"] + [f"{v:.4f}" for v in spectra[i]])
        with open(f"{side}/setup.json", "w") as f:
            json.dump({"bins": BINS, "width": WIDTH, "train_tines": 120, "lr": 0.005, "weight_decay": 0.01, "epochs": 150,
                       "batch": 20, "seed": 1, "encoder": "bench_encoder.pt"}, f)


if __name__ == "__main__":
    main()
