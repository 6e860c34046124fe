import math
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(8)
LATENT = 8
STEPS = 1000
BATCH = 128


def real_batch(n):
    k = torch.randint(0, 6, (n,))
    ang = 2 * math.pi * k / 6
    return torch.stack([2 * torch.cos(ang) + 1.5, 2 * torch.sin(ang) - 1.0], 1) + 0.15 * torch.randn(n, 2)


def mlp(i, o):
    return nn.Sequential(nn.Linear(i, 64), nn.LeakyReLU(0.2), nn.Linear(64, 64), nn.LeakyReLU(0.2), nn.Linear(64, o))


def set_trainable(net, flag):
    for p in net.parameters():
        p.requires_grad_(flag)


def energy_distance(a, b):
    ab = torch.cdist(a, b).mean()
    return (2 * ab - torch.cdist(a, a).mean() - torch.cdist(b, b).mean()).item()


gen = mlp(LATENT, 2)
disc = mlp(2, 1)
opt_g = torch.optim.Adam(gen.parameters(), lr=1e-3, betas=(0.5, 0.99))
set_trainable(disc, True)
opt_d = torch.optim.Adam(disc.parameters(), lr=1e-3, betas=(0.5, 0.99))

for it in range(1, STEPS + 1):
    # critic turn
    fake = gen(torch.randn(BATCH, LATENT))
    loss_d = F.softplus(-disc(real_batch(BATCH))).mean() + F.softplus(disc(fake)).mean()
    opt_d.zero_grad()
    loss_d.backward()
    opt_d.step()

    # generator turn, the critic only passes the gradient through
    set_trainable(disc, False)
    fake = gen(torch.randn(BATCH, LATENT))
    loss_g = F.softplus(-disc(fake)).mean()
    opt_g.zero_grad()
    loss_g.backward()
    opt_g.step()

    if it % 250 == 0:
        with torch.no_grad():
            ed = energy_distance(gen(torch.randn(800, LATENT)), real_batch(800))
        print(f"it {it:5d}  D {loss_d.item():.3f}  G {loss_g.item():.3f}  energy distance {ed:.4f}")
