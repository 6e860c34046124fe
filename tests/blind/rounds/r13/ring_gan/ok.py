"""GAN on a ring of eight Gaussians."""
import math
import torch
import torch.nn as nn

torch.manual_seed(5)
Z, B, STEPS = 8, 128, 1500
angles = torch.arange(8) * (2 * math.pi / 8)
CENTRES = 2.0 * torch.stack([angles.cos(), angles.sin()], 1)


def real(n):
    return CENTRES[torch.randint(0, 8, (n,))] + 0.08 * torch.randn(n, 2)


def mlp(i, o, act):
    return nn.Sequential(nn.Linear(i, 64), act(), nn.Linear(64, 64), act(), nn.Linear(64, o))


class Trainer:
    def __init__(self):
        self.G = mlp(Z, 2, nn.ReLU)
        self.D = mlp(2, 1, lambda: nn.LeakyReLU(0.2))
        self.og = torch.optim.Adam(self.G.parameters(), lr=1e-3, betas=(0.5, 0.999))
        self.od = torch.optim.Adam(self.D.parameters(), lr=1e-3, betas=(0.5, 0.999))
        self.bce = nn.BCEWithLogitsLoss()
        self.one, self.zero = torch.ones(B, 1), torch.zeros(B, 1)

    def step_d(self):
        fake = self.G(torch.randn(B, Z)).detach()
        loss = self.bce(self.D(real(B)), self.one) + self.bce(self.D(fake), self.zero)
        self.od.zero_grad()
        loss.backward()
        self.od.step()
        return loss.item()

    def step_g(self):
        loss = self.bce(self.D(self.G(torch.randn(B, Z))), self.one)
        self.og.zero_grad()
        loss.backward()
        self.og.step()
        return loss.item()

    @torch.no_grad()
    def energy_distance(self, n=2000):
        a, b = real(n), self.G(torch.randn(n, Z))
        return (2 * torch.cdist(a, b).mean() - torch.cdist(a, a).mean() - torch.cdist(b, b).mean()).item()

    @torch.no_grad()
    def coverage(self, n=2000):
        d, k = torch.cdist(self.G(torch.randn(n, Z)), CENTRES).min(1)
        return (torch.bincount(k[d < 0.3], minlength=8) > 40).sum().item(), (d < 0.3).float().mean().item()


t = Trainer()
history = []
for step in range(1, STEPS + 1):
    ld = t.step_d()
    lg = t.step_g()
    if step % 250 == 0:
        modes, good = t.coverage()
        history.append(t.energy_distance())
        print(f"{step} D {ld:.3f} G {lg:.3f} modes {modes} near {good:.2f} energy {history[-1]:.4f}")
print("final energy distance", sum(history[-3:]) / 3)
