"""Steady temperature in a heated rod: u'' = -q(x), u(0)=u0, u(1)=u1, solved with a small network."""
from dataclasses import dataclass
import math
import torch
from torch import nn


@dataclass(frozen=True)
class Rod:
    u_left: float = 0.3
    u_right: float = -0.2
    heat: float = 9.0
    n_inner: int = 64
    steps: int = 600
    lr: float = 4e-3
    bc_weight: float = 20.0
    seed: int = 5


def source(x, rod):
    return rod.heat * torch.sin(math.pi * x)


def exact(x, rod):
    part = rod.heat / math.pi ** 2 * torch.sin(math.pi * x)
    return part + rod.u_left + (rod.u_right - rod.u_left) * x


def network(width=24):
    return nn.Sequential(nn.Linear(1, width), nn.Tanh(),
                         nn.Linear(width, width), nn.Tanh(),
                         nn.Linear(width, 1))


def derivative(y, x):
    return torch.autograd.grad(y, x, torch.ones_like(y), create_graph=True)[0]


def residual(net, x, rod):
    x = x.requires_grad_(True)
    u = net(x)
    u_x = derivative(u, x)
    u_xx = derivative(u_x, x)
    return u_xx + source(x, rod)


def boundary(net, rod):
    ends = torch.tensor([[0.0], [1.0]])
    want = torch.tensor([[rod.u_left], [rod.u_right]])
    return ((net(ends) - want) ** 2).mean()


def solve(rod):
    torch.manual_seed(rod.seed)
    net = network()
    opt = torch.optim.Adam(net.parameters(), lr=rod.lr)
    sched = torch.optim.lr_scheduler.ExponentialLR(opt, gamma=0.998)
    for it in range(rod.steps):
        pts = torch.rand(rod.n_inner, 1)
        pde = residual(net, pts, rod).pow(2).mean()
        bc = boundary(net, rod)
        loss = pde + rod.bc_weight * bc
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        if it % 150 == 0:
            print(f"{it:5d}  pde {pde.item():9.4f}  bc {bc.item():.2e}")
    return net


if __name__ == "__main__":
    rod = Rod()
    net = solve(rod)
    grid = torch.linspace(0, 1, 201)[:, None]
    with torch.no_grad():
        err = (net(grid) - exact(grid, rod)).pow(2).mean().sqrt()
    print(f"rms error against the exact solution: {err.item():.4f}")
