"""Physics-informed network for a one-compartment oral dose model.

    dG/dt = -ka * G                  (drug left in the gut)
    dC/dt =  ka * G / V - ke * C     (plasma concentration)

The network knows the equations, the initial state and four early blood samples.
"""
import math

import torch
from torch import nn

torch.manual_seed(17)

KA, KE, VOLUME, DOSE = 0.9, 0.25, 1.0, 1.0
HORIZON = 6.0                       # hours
ITERATIONS, COLLOCATION = 1600, 64


def exact(t):
    gut = DOSE * torch.exp(-KA * t)
    plasma = DOSE * KA / (VOLUME * (KA - KE)) * (torch.exp(-KE * t) - torch.exp(-KA * t))
    return torch.cat([gut, plasma], dim=1)


class StateNet(nn.Module):
    """Maps the scaled time in [0, 1] to (gut, plasma)."""

    def __init__(self, width=32):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(1, width), nn.Tanh(),
            nn.Linear(width, width), nn.Tanh(),
            nn.Linear(width, 2),
        )
        for m in self.net:
            if isinstance(m, nn.Linear):
                nn.init.xavier_normal_(m.weight)
                nn.init.zeros_(m.bias)

    def forward(self, s):
        return self.net(2 * s - 1)


def derivative(column, wrt):
    return torch.autograd.grad(column.sum(), wrt, create_graph=True)[0]


def residuals(model, t):
    t = t.requires_grad_(True)
    s = t / HORIZON
    state = model(s)
    gut, plasma = state[:, :1], state[:, 1:]
    dgut = derivative(gut, s)
    dplasma = derivative(plasma, s)
    r1 = dgut + KA * gut
    r2 = dplasma - KA * gut / VOLUME + KE * plasma
    return r1, r2


def sample_times(n):
    """Denser near zero, where the drug is absorbed."""
    u = torch.rand(n, 1)
    return HORIZON * u ** 1.5


blood_t = torch.tensor([[0.25], [0.5], [0.75], [1.0]])
blood_c = exact(blood_t)[:, 1:] + 0.005 * torch.randn(4, 1)
start = torch.tensor([[DOSE, 0.0]])
grid = torch.linspace(0, HORIZON, 121).unsqueeze(1)
truth = exact(grid)


def relative_error(model):
    model.eval()
    with torch.no_grad():
        pred = model(grid / HORIZON)
    model.train()
    return ((pred - truth).norm() / truth.norm()).item()


def main():
    model = StateNet()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, ITERATIONS, eta_min=1e-4)
    for it in range(1, ITERATIONS + 1):
        r1, r2 = residuals(model, sample_times(COLLOCATION))
        physics = (r1 ** 2).mean() + (r2 ** 2).mean()
        initial = ((model(torch.zeros(1, 1)) - start) ** 2).sum()
        blood = ((model(blood_t / HORIZON)[:, 1:] - blood_c) ** 2).mean()
        loss = physics + 5.0 * initial + blood

        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        if it % 200 == 0:
            print(f"iter {it:5d}  physics {physics.item():.2e}  initial {initial.item():.2e}  "
                  f"blood {blood.item():.2e}  relative error {relative_error(model):.4f}")
    half_life = math.log(2) / KE
    print(f"half life {half_life:.2f} h, final relative error {relative_error(model):.4f}")


if __name__ == "__main__":
    main()
