import math

import torch
import torch.nn as nn
import torch.nn.functional as F


def ring(n, gen, k=8, radius=2.0, std=0.12):
    which = torch.randint(0, k, (n,), generator=gen)
    angle = 2 * math.pi * which / k
    centers = torch.stack([angle.cos(), angle.sin()], 1) * radius
    return centers + std * torch.randn(n, 2, generator=gen)


class Generator(nn.Module):
    def __init__(self, z_dim=8, width=96):
        super().__init__()
        self.z_dim = z_dim
        self.net = nn.Sequential(nn.Linear(z_dim, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(),
                                 nn.Linear(width, 2))

    def forward(self, n):
        return self.net(torch.randn(n, self.z_dim))


class Discriminator(nn.Module):
    def __init__(self, width=96):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, width), nn.LeakyReLU(0.2), nn.Linear(width, width),
                                 nn.LeakyReLU(0.2), nn.Linear(width, 1))

    def forward(self, x):
        return self.net(x).squeeze(1)


class Trainer:
    def __init__(self, lr=1e-3, batch=128):
        self.g, self.d, self.batch = Generator(), Discriminator(), batch
        self.opt_g = torch.optim.Adam(self.g.parameters(), lr=lr, betas=(0.5, 0.99))
        self.opt_d = torch.optim.Adam(self.d.parameters(), lr=lr, betas=(0.5, 0.99))

    def step(self, real):
        ones, zeros = torch.ones(len(real)), torch.zeros(len(real))
        fake = self.g(len(real)).detach()
        real_in = real.clone().requires_grad_(True)
        out_real, out_fake = self.d(real_in), self.d(fake)
        grad, = torch.autograd.grad(out_real.sum(), real_in, create_graph=True)
        loss_d = (F.binary_cross_entropy_with_logits(out_real, ones)
                  + F.binary_cross_entropy_with_logits(out_fake, zeros)
                  + 0.05 * grad.pow(2).sum(1).mean())
        self.opt_d.zero_grad()
        loss_d.backward()
        self.opt_d.step()

        loss_g = F.binary_cross_entropy_with_logits(self.d(fake), ones)
        self.opt_g.zero_grad()
        loss_g.backward()
        self.opt_g.step()
        return loss_d.item(), loss_g.item()

    def fit(self, data, steps):
        for i in range(steps):
            idx = torch.randint(0, len(data), (self.batch,))
            ld, lg = self.step(data[idx])
            if i % 200 == 0:
                print(f"step {i:4d} d {ld:.3f} g {lg:.3f}")


def energy_distance(a, b):
    return (2 * torch.cdist(a, b).mean() - torch.cdist(a, a).mean() - torch.cdist(b, b).mean()).item()


def main():
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(1)
    train, test = ring(8000, gen), ring(1500, gen)
    trainer = Trainer()
    trainer.fit(train, steps=900)
    trainer.g.eval()
    with torch.no_grad():
        samples = trainer.g(1500)
    print(f"energy distance to held-out data: {energy_distance(samples, test):.4f}")


if __name__ == "__main__":
    main()
