"""A network that solves u'' = -u with u(0)=0, u'(0)=1: double backward through autograd.grad, Adam first, LBFGS to
finish."""

import math

import torch
import torch.nn as nn

torch.manual_seed(1234)
torch.set_default_dtype(torch.float64)


class PINN(nn.Module):
    def __init__(self, width=20, depth=3):
        super().__init__()
        layers = [nn.Linear(1, width), nn.Tanh()]
        for _ in range(depth - 1):
            layers += [nn.Linear(width, width), nn.Tanh()]
        layers.append(nn.Linear(width, 1))
        self.net = nn.Sequential(*layers)
        for m in self.net:
            if isinstance(m, nn.Linear):
                nn.init.xavier_normal_(m.weight)
                nn.init.zeros_(m.bias)

    def forward(self, t):
        return self.net(t)


model = PINN()
t_physics = torch.linspace(0, math.pi, 40).view(-1, 1).requires_grad_(True)
t_boundary = torch.zeros(1, 1, requires_grad=True)
t_test = torch.linspace(0, math.pi, 100).view(-1, 1)


def losses():
    u0 = model(t_boundary)
    du0 = torch.autograd.grad(u0, t_boundary, torch.ones_like(u0), create_graph=True)[0]
    boundary = torch.squeeze(u0 - 0) ** 2 + torch.squeeze(du0 - 1) ** 2
    u = model(t_physics)
    du = torch.autograd.grad(u, t_physics, torch.ones_like(u), create_graph=True)[0]
    d2u = torch.autograd.grad(du, t_physics, torch.ones_like(du), create_graph=True)[0]
    return boundary, torch.mean((d2u + u) ** 2)


adam = torch.optim.Adam(model.parameters(), lr=5e-3)
for i in range(60):
    adam.zero_grad()
    boundary, physics = losses()
    loss = boundary + 0.1 * physics
    loss.backward()
    adam.step()
    if i % 20 == 0:
        print(i, loss.item())

lbfgs = torch.optim.LBFGS(model.parameters(), lr=1.0, max_iter=8, history_size=10, line_search_fn="strong_wolfe")


def closure():
    lbfgs.zero_grad()
    boundary, physics = losses()
    loss = boundary + 0.1 * physics
    loss.backward()
    return loss


for _ in range(8):
    loss = lbfgs.step(closure)
with torch.no_grad():
    error = (model(t_test) - torch.sin(t_test)).abs().max().item()
print("lbfgs", loss.item(), "largest error", error)
