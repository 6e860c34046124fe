"""WGAN-GP that imitates the size/shape scatter of pollen grains (eight species)."""
import math
import torch
from torch import nn, autograd

torch.manual_seed(8)
LATENT, BATCH, CRITIC_STEPS, LAMBDA = 4, 128, 2, 1.0


def real_grains(n):
    k = torch.randint(0, 8, (n,)).float() * math.pi / 4
    return torch.stack([2 * k.cos(), 2 * k.sin()], 1) + 0.1 * torch.randn(n, 2)


def mlp(i, o, h=64):
    return nn.Sequential(nn.Linear(i, h), nn.LeakyReLU(0.2), nn.Linear(h, h), nn.LeakyReLU(0.2), nn.Linear(h, o))


generator, critic = mlp(LATENT, 2), mlp(2, 1)
opt_g = torch.optim.Adam(generator.parameters(), lr=2e-3, betas=(0.5, 0.9))
opt_c = torch.optim.Adam(critic.parameters(), lr=2e-3, betas=(0.5, 0.9))


def gradient_penalty(real, fake):
    eps = torch.rand(len(real), 1)
    mix = (eps * real + (1 - eps) * fake).requires_grad_(True)
    score = critic(mix)
    grad, = autograd.grad(score.sum(), mix)
    return ((grad.norm(2, dim=1) - 1) ** 2).mean()


@torch.no_grad()
def sliced_distance(n=4000, directions=50):
    a, b = real_grains(n), generator(torch.randn(n, LATENT))
    ang = torch.linspace(0, math.pi, directions)
    proj = torch.stack([ang.cos(), ang.sin()])
    pa, pb = (a @ proj).sort(0).values, (b @ proj).sort(0).values
    return (pa - pb).abs().mean().item()


history = []
for step in range(1, 241):
    for _ in range(CRITIC_STEPS):
        real = real_grains(BATCH)
        with torch.no_grad():
            fake = generator(torch.randn(BATCH, LATENT))
        loss_c = critic(fake).mean() - critic(real).mean() + LAMBDA * gradient_penalty(real, fake)
        opt_c.zero_grad()
        loss_c.backward()
        opt_c.step()

    loss_g = -critic(generator(torch.randn(BATCH, LATENT))).mean()
    opt_g.zero_grad()
    loss_g.backward()
    opt_g.step()

    if step > 160 and step % 20 == 0:
        history.append(sliced_distance())
    if step % 40 == 0:
        print(f"step {step} critic {loss_c.item():.3f} gen {loss_g.item():.3f} distance {sliced_distance():.3f}")

print(f"mean sliced distance over the last evaluations {sum(history) / len(history):.3f}")
