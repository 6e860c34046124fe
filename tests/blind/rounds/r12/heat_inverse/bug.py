# Inverse problem: find the diffusivity of a rod from scattered noisy thermometers,
# then use the fitted field to look at times where nobody measured.
import math

import torch
import torch.nn as nn

torch.manual_seed(4)
torch.set_default_dtype(torch.float32)

TRUE_K = 0.05


def exact(x, t):
    a = torch.exp(-TRUE_K * math.pi ** 2 * t) * torch.sin(math.pi * x)
    b = 0.5 * torch.exp(-TRUE_K * 9 * math.pi ** 2 * t) * torch.sin(3 * math.pi * x)
    return a + b


# thermometers record the first 40 % of the experiment
n_obs = 120
x_obs = torch.rand(n_obs, 1)
t_obs = 0.4 * torch.rand(n_obs, 1)
u_obs = exact(x_obs, t_obs) + 0.01 * torch.randn(n_obs, 1)


class Field(nn.Module):
    def __init__(self, width=24, depth=3):
        super().__init__()
        sizes = [2] + [width] * depth
        self.hidden = nn.ModuleList(nn.Linear(a, b) for a, b in zip(sizes, sizes[1:]))
        self.last = nn.Linear(width, 1)

    def forward(self, x, t):
        h = torch.cat([2 * x - 1, 2 * t - 1], 1)
        for layer in self.hidden:
            h = torch.tanh(layer(h))
        return self.last(h)


def derivative(y, x):
    return torch.autograd.grad(y, x, torch.ones_like(y), create_graph=True)[0]


def residual(field, k, n):
    x = torch.rand(n, 1, requires_grad=True)
    t = torch.rand(n, 1, requires_grad=True)
    u = field(x, t)
    return derivative(u, t) - k * derivative(derivative(u, x), x)


def boundary(field, n):
    t = torch.rand(n, 1)
    return field(torch.zeros(n, 1), t), field(torch.ones(n, 1), t)


field = Field()
log_k = nn.Parameter(torch.tensor(math.log(0.5)))
optimizer = torch.optim.Adam(field.parameters(), lr=3e-3)
schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, [700, 1000], gamma=0.3)

STEPS = 1200
for step in range(STEPS):
    fit = (field(x_obs, t_obs) - u_obs).pow(2).mean()
    phys = residual(field, log_k.exp(), 64).pow(2).mean()
    left, right = boundary(field, 32)
    walls = left.pow(2).mean() + right.pow(2).mean()
    loss = 10 * fit + phys + walls
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()
    if step % 250 == 0 or step == STEPS - 1:
        print(f"{step:5d}  loss {loss.item():.5f}  data {fit.item():.5f}  pde {phys.item():.5f}  "
              f"walls {walls.item():.5f}")

print("diffusivity", round(log_k.exp().item(), 4))
with torch.no_grad():
    gx, gt = torch.meshgrid(torch.linspace(0, 1, 41), torch.linspace(0, 1, 41), indexing="ij")
    gx, gt = gx.reshape(-1, 1), gt.reshape(-1, 1)
    truth = exact(gx, gt)
    rel = (field(gx, gt) - truth).norm() / truth.norm()
print(f"relative field error {rel.item():.4f}")
