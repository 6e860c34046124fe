import math

import torch
from torch import nn

torch.manual_seed(0)
DELTA, OMEGA0, T_END = 0.4, 3.0, 2.5
STEPS, N_COLLOC = 1000, 48


class FieldNet(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(1, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1)
        )

    def forward(self, t):
        return 1 + t ** 2 * self.net(2 * t / T_END - 1)  # u(0) = 1, u'(0) = 0


def exact(t):
    w = math.sqrt(OMEGA0 ** 2 - DELTA ** 2)
    return torch.exp(-DELTA * t) * (torch.cos(w * t) + DELTA / w * torch.sin(w * t))


def derivative(u, t, create_graph=False):
    return torch.autograd.grad(u, t, torch.ones_like(u), create_graph=create_graph, retain_graph=True)[0]


def residual(model, t):
    u = model(t)
    u_t = derivative(u, t, create_graph=True)
    u_tt = derivative(u_t, t, create_graph=True)
    return u_tt + 2 * DELTA * u_t + OMEGA0 ** 2 * u


@torch.no_grad()
def relative_error(model):
    t = torch.linspace(0, T_END, 300)[:, None]
    return ((model(t) - exact(t)).norm() / exact(t).norm()).item()


model = FieldNet()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
for step in range(1, STEPS + 1):
    t = (torch.rand(N_COLLOC, 1) * T_END).requires_grad_(True)
    loss = residual(model, t).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    scheduler.step()
    if step % 200 == 0:
        print(f"step {step} physics loss {loss.item():.4f} rel error {relative_error(model):.3f}")
print(f"relative L2 error against the exact solution {relative_error(model):.3f}")
