"""Conditional generator of decay curves: an adversarial term and an L1 term on the mean level."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
BINS, ROOM, NOISE = 32, 2, 8


def rooms(count):
    room = torch.rand(count, ROOM)
    time = torch.linspace(0, 1, BINS)
    phase = torch.rand(count, 1) * 6.28
    curve = torch.exp(-time * (1 + 4 * room[:, :1])) * (1 + 0.5 * torch.sin(12 * time * (1 + room[:, 1:]) + phase))
    return room, curve


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(ROOM + NOISE, 64), nn.LeakyReLU(0.2), nn.Linear(64, 64), nn.LeakyReLU(0.2),
                                 nn.Linear(64, BINS))

    def forward(self, room):
        noise = torch.randn(len(room), NOISE)
        return self.net(torch.cat([room, noise], dim=1))


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(ROOM + BINS, 64), nn.LeakyReLU(0.2), nn.Linear(64, 64), nn.LeakyReLU(0.2),
                                 nn.Linear(64, 1))

    def forward(self, curve, room):
        return self.net(torch.cat([curve, room], dim=1))


g, d = Generator(), Discriminator()
g_optimizer = torch.optim.Adam(g.parameters(), lr=1e-3, betas=(0.5, 0.999))
d_optimizer = torch.optim.Adam(d.parameters(), lr=1e-3, betas=(0.5, 0.999))

for step in range(1200):
    room, real = rooms(64)
    fake = g(room)

    d_real = d(real, room)
    d_fake = d(fake.detach(), room)
    d_loss = F.mse_loss(d_real, torch.ones_like(d_real)) + F.mse_loss(d_fake, torch.zeros_like(d_fake))
    d_optimizer.zero_grad()
    d_loss.backward()
    d_optimizer.step()

    d_fake2 = d(fake, room)
    g_loss1 = F.mse_loss(d_fake2, torch.ones_like(d_fake2))
    g_loss2 = (fake.mean(1) - real.mean(1)).abs().mean()
    g_loss = g_loss1 + 0.5 * g_loss2
    g_optimizer.zero_grad()
    g_loss.backward()
    g_optimizer.step()

    if step % 200 == 199:
        with torch.no_grad():
            room, real = rooms(512)
            gap = (g(room).std(0) - real.std(0)).abs().mean() + (g(room).mean(0) - real.mean(0)).abs().mean()
        print(f"step {step + 1} d {d_loss.item():.3f} g {g_loss1.item():.3f} {g_loss2.item():.3f} gap {gap.item():.3f}")
