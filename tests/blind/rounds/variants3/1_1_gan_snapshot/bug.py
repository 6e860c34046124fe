import contextlib
import math

import torch
from torch import nn

torch.manual_seed(3)


def ring(n):
    a = torch.rand(n) * 2 * math.pi
    r = 1.5 + 0.1 * torch.randn(n)
    return torch.stack([r * a.cos() + 0.5, r * a.sin()], 1)


def energy_distance(a, b):
    return (2 * torch.cdist(a, b).mean() - torch.cdist(a, a).mean() - torch.cdist(b, b).mean()).item()


@contextlib.contextmanager
def sampling(*nets):
    for net in nets:
        net.eval()
    modes = [net.training for net in nets]
    try:
        with torch.no_grad():
            yield
    finally:
        for net, mode in zip(nets, modes):
            net.train(mode)


gen = nn.Sequential(
    nn.Linear(6, 64), nn.BatchNorm1d(64), nn.ReLU(),
    nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU(),
    nn.Linear(64, 2),
)
critic = nn.Sequential(
    nn.Linear(2, 96), nn.LeakyReLU(0.2), nn.Dropout(0.1),
    nn.Linear(96, 96), nn.LeakyReLU(0.2),
    nn.Linear(96, 1),
)
opt_g = torch.optim.Adam(gen.parameters(), lr=2e-3, betas=(0.5, 0.9))
opt_c = torch.optim.Adam(critic.parameters(), lr=4e-3, betas=(0.5, 0.9))
held_out = ring(1000)

for it in range(200):
    real = ring(256)
    fake = gen(torch.randn(256, 6))
    loss_c = (1 - critic(real)).relu().mean() + (1 + critic(fake.detach())).relu().mean()
    opt_c.zero_grad()
    loss_c.backward()
    opt_c.step()

    loss_g = -critic(gen(torch.randn(256, 6))).mean()
    opt_g.zero_grad()
    loss_g.backward()
    opt_g.step()

    if it % 25 == 24:
        with sampling(gen, critic):
            pts = gen(torch.randn(1000, 6))
            gap = (critic(held_out).mean() - critic(pts).mean()).item()
        print(f"iter {it + 1:3d}  critic {loss_c.item():.3f}  gen {loss_g.item():.3f}  "
              f"gap {gap:.3f}  energy distance {energy_distance(pts, held_out):.4f}")
