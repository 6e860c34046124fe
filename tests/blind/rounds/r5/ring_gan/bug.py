"""GAN that learns a ring of radius two."""
import math
import torch
from torch import nn
import torch.nn.functional as F

NOISE, BATCH, STEPS, LR = 4, 128, 600, 2e-3


def sample_ring(n):
    angle = torch.rand(n) * 2 * math.pi
    radius = 2 + 0.1 * torch.randn(n)
    return torch.stack([radius * angle.cos(), radius * angle.sin()], 1)


def mlp(n_in, n_out, hidden=32):
    return nn.Sequential(nn.Linear(n_in, hidden), nn.LeakyReLU(0.2), nn.Linear(hidden, hidden), nn.LeakyReLU(0.2), nn.Linear(hidden, n_out))


def ring_error(points):
    """Mean distance from the ring plus the share of the 12 sectors left empty."""
    distance = (points.norm(dim=1) - 2).abs().mean().item()
    sector = ((torch.atan2(points[:, 1], points[:, 0]) + math.pi) / (2 * math.pi) * 12).long().clamp(0, 11)
    empty = (torch.bincount(sector, minlength=12) < 5).float().mean().item()
    return distance, empty


class RingGAN:
    def __init__(self):
        self.generator = mlp(NOISE, 2)
        self.critic = mlp(2, 1)
        self.opt_g = torch.optim.Adam(self.critic.parameters(), lr=LR, betas=(0.5, 0.99))
        self.opt_d = torch.optim.Adam(self.critic.parameters(), lr=LR, betas=(0.5, 0.99))

    def train_critic(self, real):
        fake = self.generator(torch.randn(len(real), NOISE)).detach()
        self.opt_d.zero_grad()
        loss = F.softplus(-self.critic(real)).mean() + F.softplus(self.critic(fake)).mean()
        loss.backward()
        self.opt_d.step()
        return loss.item()

    def train_generator(self, n):
        self.opt_g.zero_grad()
        loss = F.softplus(-self.critic(self.generator(torch.randn(n, NOISE)))).mean()
        loss.backward()
        self.opt_g.step()
        return loss.item()

    @torch.no_grad()
    def sample(self, n):
        self.generator.eval()
        points = self.generator(torch.randn(n, NOISE))
        self.generator.train()
        return points


if __name__ == "__main__":
    torch.manual_seed(8)
    gan = RingGAN()
    for step in range(STEPS):
        d_loss = gan.train_critic(sample_ring(BATCH))
        g_loss = gan.train_generator(BATCH)
        if step % 100 == 0:
            distance, empty = ring_error(gan.sample(500))
            print(f"step {step} d {d_loss:.3f} g {g_loss:.3f} distance {distance:.3f} empty {empty:.2f}")
    distance, empty = ring_error(gan.sample(2000))
    print(f"final distance from ring {distance:.3f} empty sectors {empty:.2f}")
