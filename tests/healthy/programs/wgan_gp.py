"""Wasserstein GAN with gradient penalty: five critic steps for each generator step."""

import torch
import torch.nn as nn
from torch.autograd import grad as torch_grad

LATENT_DIM = 8
N_CRITIC = 5
LAMBDA_GP = 10.0
BATCH = 64


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(LATENT_DIM, 64),
            nn.BatchNorm1d(64),
            nn.ReLU(),
            nn.Linear(64, 64),
            nn.BatchNorm1d(64),
            nn.ReLU(),
            nn.Linear(64, 2),
        )

    def forward(self, z):
        return self.net(z)


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(2, 64), nn.LeakyReLU(0.2), nn.Linear(64, 64), nn.LeakyReLU(0.2), nn.Linear(64, 1)
        )

    def forward(self, x):
        return self.net(x).view(-1)


class Trainer:
    def __init__(self, generator, critic):
        self.G = generator
        self.D = critic
        self.G_opt = torch.optim.Adam(generator.parameters(), lr=1e-3, betas=(0.5, 0.9))
        self.D_opt = torch.optim.Adam(critic.parameters(), lr=1e-3, betas=(0.5, 0.9))
        self.losses = {"G": [], "D": [], "GP": [], "gradient_norm": []}
        self.num_steps = 0

    def sample_generator(self, count):
        return self.G(torch.randn(count, LATENT_DIM))

    def critic_step(self, real):
        fake = self.sample_generator(len(real))
        d_real = self.D(real)
        d_fake = self.D(fake)
        penalty = self.gradient_penalty(real, fake)
        self.D_opt.zero_grad()
        d_loss = d_fake.mean() - d_real.mean() + penalty
        d_loss.backward()
        self.D_opt.step()
        self.losses["D"].append(d_loss.item())
        self.losses["GP"].append(penalty.item())

    def generator_step(self, count):
        self.G_opt.zero_grad()
        d_fake = self.D(self.sample_generator(count))
        g_loss = -d_fake.mean()
        g_loss.backward()
        self.G_opt.step()
        self.losses["G"].append(g_loss.item())

    def gradient_penalty(self, real, fake):
        alpha = torch.rand(len(real), 1)
        between = (alpha * real.data + (1 - alpha) * fake.data).requires_grad_(True)
        scores = self.D(between)
        gradients = torch_grad(
            outputs=scores, inputs=between, grad_outputs=torch.ones(scores.size()), create_graph=True, retain_graph=True
        )[0]
        norm = torch.sqrt(torch.sum(gradients.view(len(real), -1) ** 2, dim=1) + 1e-12)
        self.losses["gradient_norm"].append(norm.mean().item())
        return LAMBDA_GP * ((norm - 1) ** 2).mean()

    def train(self, data, steps):
        for _ in range(steps):
            self.num_steps += 1
            real = data[torch.randint(0, len(data), (BATCH,))]
            self.critic_step(real)
            if self.num_steps % N_CRITIC == 0:
                self.generator_step(BATCH)
            if self.num_steps % 50 == 0:
                last = {name: round(values[-1], 3) for name, values in self.losses.items() if values}
                print(f"{self.num_steps}: {last}")


if __name__ == "__main__":
    torch.manual_seed(3)
    angles = torch.randint(0, 8, (2000,)) * (torch.pi / 4)
    ring = torch.stack([angles.cos(), angles.sin()], 1) + 0.05 * torch.randn(2000, 2)
    trainer = Trainer(Generator(), Critic())
    trainer.train(ring, 200)
    with torch.no_grad():
        trainer.G.eval()
        print("radius", trainer.sample_generator(200).norm(dim=1).mean().item())
