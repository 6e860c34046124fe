import math

import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(7)
STEPS, BATCH, Z, LR = 900, 128, 8, 1e-3


def sample_ring(n, gen):
    k = torch.randint(0, 8, (n,), generator=gen)
    ang = k * (2 * math.pi / 8)
    centre = 2 * torch.stack([ang.cos(), ang.sin()], 1)
    return centre + 0.1 * torch.randn(n, 2, generator=gen)


def mlp(i, o, h=96):
    return nn.Sequential(nn.Linear(i, h), nn.LeakyReLU(0.2), nn.Linear(h, h), nn.LeakyReLU(0.2), nn.Linear(h, o))


def energy_distance(a, b):
    return (2 * torch.cdist(a, b).mean() - torch.cdist(a, a).mean() - torch.cdist(b, b).mean()).item()


@torch.no_grad()
def score(generator, held_out):
    generator.eval()
    fake = generator(torch.randn(len(held_out), Z, generator=torch.Generator().manual_seed(55)))
    generator.train()
    near = torch.stack([torch.tensor([math.cos(i * math.pi / 4), math.sin(i * math.pi / 4)]) * 2 for i in range(8)])
    d, which = torch.cdist(fake, near).min(1)
    modes = len(which[d < 0.4].unique())
    return energy_distance(fake, held_out), modes


data_gen = torch.Generator().manual_seed(11)
held_out = sample_ring(1000, torch.Generator().manual_seed(12))
G, D = mlp(Z, 2), mlp(2, 1)
opt_g = torch.optim.Adam(G.parameters(), lr=LR, betas=(0.5, 0.999))
opt_d = torch.optim.Adam(D.parameters(), lr=LR, betas=(0.5, 0.999))
ones, zeros = torch.ones(BATCH, 1), torch.zeros(BATCH, 1)

for step in range(1, STEPS + 1):
    real = sample_ring(BATCH, data_gen)
    fake = G(torch.randn(BATCH, Z))

    opt_d.zero_grad()
    loss_real = F.binary_cross_entropy_with_logits(D(real), ones)
    loss_fake = F.binary_cross_entropy_with_logits(D(fake.detach()), zeros)
    loss_d = loss_real + loss_fake
    loss_d.backward()
    opt_d.step()

    opt_g.zero_grad()
    loss_g = F.binary_cross_entropy_with_logits(D(fake), ones)
    loss_g.backward()
    opt_g.step()
    if step % 150 == 0:
        ed, modes = score(G, held_out)
        print(f"step {step} D {loss_d.item():.3f} G {loss_g.item():.3f} energy distance {ed:.4f} modes {modes}/8")
ed, modes = score(G, held_out)
print(f"final energy distance {ed:.4f}, modes covered {modes}/8")
