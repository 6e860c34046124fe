"""Fading (CIELAB delta E) of natural dyes on wool under museum light, from swatch and exposure data.

Large effective batches are collected from small ones, as on the laptop of the conservation lab.
"""
import math

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(33)
rng = np.random.default_rng(33)

DYES = ["madder", "weld", "woad", "cochineal", "walnut", "lichen"]
SENSITIVITY = np.array([0.55, 1.5, 0.35, 0.8, 0.5, 1.9])
MORDANT_GAIN = {"alum": 1.0, "iron": 0.55, "tin": 1.35}
MICRO, COLLECT = 16, 4
EPOCHS = 12


def swatches(n):
    dye = rng.integers(0, len(DYES), n)
    mordant = rng.integers(0, 3, n)
    klux_h = rng.lognormal(5.5, 0.9, n)
    uv = rng.uniform(0, 75, n)
    rh = rng.normal(52, 9, n)
    depth = rng.uniform(0.4, 2.5, n)
    dose = klux_h / 400 * SENSITIVITY[dye] * np.array(list(MORDANT_GAIN.values()))[mordant]
    dose = dose * (1 + uv / 60) * np.exp(0.02 * (rh - 52)) / np.sqrt(depth)
    delta_e = 28 * (1 - np.exp(-0.5 * dose ** 0.8)) + rng.normal(0, 0.5, n)
    x = np.column_stack([np.eye(len(DYES))[dye], np.eye(3)[mordant], np.log(klux_h), uv, rh, depth])
    return torch.tensor(x, dtype=torch.float32), torch.tensor(delta_e, dtype=torch.float32)


class ResidualBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, h):
        return h + self.down(nn.functional.gelu(self.up(self.norm(h))))


class FadeNet(nn.Module):
    def __init__(self, inputs, width=32, blocks=2):
        super().__init__()
        self.stem = nn.Linear(inputs, width)
        self.blocks = nn.Sequential(*[ResidualBlock(width) for _ in range(blocks)])
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 1))

    def forward(self, x):
        return self.head(self.blocks(self.stem(x))).squeeze(-1)


class Collector:
    """Sums the gradients of several small batches and steps the optimizer once for all of them."""

    def __init__(self, params, optimizer, count):
        self.params = list(params)
        self.optimizer = optimizer
        self.count = count
        self.sums = [torch.zeros_like(p) for p in self.params]
        self.seen = 0

    def add(self, loss):
        grads = torch.autograd.grad(loss / self.count, self.params)
        torch._foreach_add_(self.sums, grads)
        self.seen += 1
        return self.seen == self.count

    def step(self):
        for p, s in zip(self.params, self.sums):
            p.grad = s
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.seen = 0


x, y = swatches(2048)
x_val, y_val = swatches(500)
mean, std = x.mean(0), x.std(0)
y_mean, y_std = y.mean(), y.std()
x, x_val = (x - mean) / std, (x_val - mean) / std

loader = DataLoader(TensorDataset(x, (y - y_mean) / y_std), batch_size=MICRO, shuffle=True, drop_last=True)
net = FadeNet(x.shape[1])
opt = torch.optim.Adam(net.parameters(), lr=3e-3)
updates = EPOCHS * len(loader) // COLLECT
sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda u: 0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * u / updates)))
collector = Collector(net.parameters(), opt, COLLECT)

for epoch in range(EPOCHS):
    net.train()
    total = 0.0
    for xb, yb in loader:
        loss = nn.functional.mse_loss(net(xb), yb)
        total += loss.item()
        if collector.add(loss):
            collector.step()
            sched.step()
    net.eval()
    with torch.no_grad():
        mae = ((net(x_val) * y_std + y_mean) - y_val).abs().mean().item()
    if epoch % 3 == 2:
        print(f"epoch {epoch + 1:2d}  train {total / len(loader):.4f}  validation MAE {mae:.2f} delta E")
