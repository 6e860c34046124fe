import json
import sys

import torch
from torch import nn

problem = json.load(open(f"{sys.argv[1]}/problem.json"))
torch.manual_seed(problem["seed"])
LAM, AMP, FREQ, T_END = problem["rate"], problem["amplitude"], problem["frequency"], problem["t_end"]
LOW, HIGH = problem["collocation"]


def forcing(t):
    return AMP * torch.sin(FREQ * t)


def reference(n):
    """classical RK4 solution of u' = -rate * u + forcing, u(0) = 1"""
    t = torch.linspace(0, T_END, n, dtype=torch.float64)
    h, u = T_END / (n - 1), [torch.tensor(1.0, dtype=torch.float64)]
    f = lambda s, v: -LAM * v + forcing(s)
    for s in t[:-1]:
        k1 = f(s, u[-1])
        k2 = f(s + h / 2, u[-1] + h / 2 * k1)
        k3 = f(s + h / 2, u[-1] + h / 2 * k2)
        k4 = f(s + h, u[-1] + h * k3)
        u.append(u[-1] + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4))
    return t.float()[:, None], torch.stack(u).float()[:, None]


class Net(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(1, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1))

    def forward(self, t):
        return 1 + t * self.net(2 * t / T_END - 1)  # satisfies u(0) = 1


def physics_loss(model, t):
    u = model(t)
    u_t = torch.autograd.grad(u.sum(), t, create_graph=True)[0]
    return (u_t + LAM * u - forcing(t)).pow(2).mean()


@torch.no_grad()
def rel_error(model):
    model.eval()
    err = (model(t_ref) - u_ref).norm() / u_ref.norm()
    model.train()
    return err.item()


t_ref, u_ref = reference(201)
model = Net()
optimizer = torch.optim.Adam(model.parameters(), lr=problem["lr"])
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, problem["steps"])
for step in range(1, problem["steps"] + 1):
    t = (LOW + (HIGH - LOW) * torch.rand(problem["points"], 1)).requires_grad_(True)
    loss = physics_loss(model, t)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    scheduler.step()
    if step % 160 == 0:
        print(f"step {step} physics loss {loss.item():.6f} rel error {rel_error(model):.4f}")
print(f"final physics loss {loss.item():.6f}, relative error on [0, {T_END}] {rel_error(model):.4f}")
