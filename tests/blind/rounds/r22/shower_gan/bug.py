"""Fast simulation of calorimeter showers: a small GAN over (energy fractions, width) vectors."""
import torch
import torch.nn as nn

torch.manual_seed(23)

LATENT, FEATURES, BATCH, STEPS = 8, 4, 128, 1000


def real_showers(n):
    kind = torch.rand(n) < 0.6                       # electrons / pions
    depth = torch.where(kind, 0.8 + 0.25 * torch.randn(n), -0.9 + 0.35 * torch.randn(n))
    width = 0.7 * depth ** 2 - 0.4 + 0.15 * torch.randn(n)
    tail = torch.where(kind, -0.6, 0.8) + 0.2 * torch.randn(n)
    leak = 0.5 * tail - 0.3 * depth + 0.1 * torch.randn(n)
    return torch.stack([depth, width, tail, leak], 1)


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(LATENT, 64), nn.LeakyReLU(0.2),
            nn.Linear(64, 64), nn.LeakyReLU(0.2),
            nn.Linear(64, FEATURES))

    def forward(self, z):
        return self.net(z)


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(FEATURES, 64), nn.LeakyReLU(0.2),
            nn.Linear(64, 64), nn.LeakyReLU(0.2),
            nn.Linear(64, 1))

    def forward(self, x):
        return self.net(x).squeeze(-1)


def energy_distance(a, b):
    ab = torch.cdist(a, b).mean()
    aa = torch.cdist(a, a).sum() / (len(a) * (len(a) - 1))
    bb = torch.cdist(b, b).sum() / (len(b) * (len(b) - 1))
    return (2 * ab - aa - bb).item()


class GanTrainer:
    def __init__(self):
        self.gen, self.critic = Generator(), Critic()
        self.opt_g = torch.optim.Adam(self.gen.parameters(), lr=5e-4, betas=(0.5, 0.99))
        self.opt_c = torch.optim.Adam(self.critic.parameters(), lr=5e-4, betas=(0.5, 0.99))
        self.bce = nn.BCEWithLogitsLoss()
        self.reference = real_showers(2000)

    def step(self):
        real = real_showers(BATCH)
        fake = self.gen(torch.randn(BATCH, LATENT)).detach()

        score_real, score_fake = self.critic(real), self.critic(fake)
        loss_c = self.bce(score_real, torch.full_like(score_real, 0.9)) + self.bce(score_fake, torch.zeros_like(score_fake))
        self.opt_c.zero_grad()
        loss_c.backward()
        self.opt_c.step()

        score = self.critic(fake)
        loss_g = self.bce(score, torch.ones_like(score))
        self.opt_g.zero_grad()
        loss_g.backward()
        self.opt_g.step()
        return loss_c.item(), loss_g.item()

    @torch.no_grad()
    def distance(self):
        self.gen.eval()
        samples = self.gen(torch.randn(2000, LATENT))
        self.gen.train()
        return energy_distance(samples, self.reference)

    def fit(self):
        for step in range(1, STEPS + 1):
            loss_c, loss_g = self.step()
            if step % 250 == 0:
                print(f"step {step}: critic {loss_c:.3f} generator {loss_g:.3f} distance {self.distance():.4f}")
        return self.distance()


if __name__ == "__main__":
    print(f"energy distance to held-out showers: {GanTrainer().fit():.4f}")
