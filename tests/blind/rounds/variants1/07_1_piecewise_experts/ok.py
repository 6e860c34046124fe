import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(14)


def mlp(*sizes):
    layers = []
    for a, b in zip(sizes[:-1], sizes[1:]):
        layers += [nn.Linear(a, b), nn.Tanh()]
    return nn.Sequential(*layers[:-1])


class Mixture(nn.Module):
    """Soft mixture of small experts; the gate sees the same input."""

    def __init__(self, d_in, experts=4, width=24):
        super().__init__()
        self.gate = mlp(d_in, width, experts)
        self.experts = nn.ModuleList(mlp(d_in, width, 1) for _ in range(experts))

    def forward(self, x):
        weight = self.gate(x).softmax(-1)
        answers = torch.cat([e(x) for e in self.experts], dim=-1)
        return (weight * answers).sum(-1), weight


def target(x):
    region = (x[:, 0] > 0).long() + 2 * (x[:, 1] > 0).long()
    slopes = torch.tensor([[1.0, 2.0], [-2.0, 1.0], [0.5, -3.0], [-1.0, -1.0]])[region]
    offset = torch.tensor([0.0, 2.0, -2.0, 1.0])[region]
    return (slopes * x[:, 2:4]).sum(-1) + offset


def objective(model, x, y):
    guess, weight = model(x)
    load = weight.mean(0)
    balance = (load * load).sum() * load.numel() - 1
    return F.mse_loss(guess, y), 0.01 * balance


x = torch.randn(3600, 4)
y = target(x) + 0.05 * torch.randn(3600)
x_tr, y_tr, x_va, y_va = x[:3000], y[:3000], x[3000:], y[3000:]
model = Mixture(4)
optimizer = torch.optim.Adam(model.parameters(), lr=2.5e-2)
schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.85)
for epoch in range(13):
    model.train()
    total = 0.0
    for idx in torch.randperm(3000).split(100):
        fit, balance = objective(model, x_tr[idx], y_tr[idx])
        optimizer.zero_grad()
        (fit + balance).backward()
        optimizer.step()
        total += fit.item() * len(idx)
    schedule.step()
    model.eval()
    with torch.no_grad():
        held = objective(model, x_va, y_va)[0].item()
    print(f"epoch {epoch} train mse {total / 3000:.3f} held-out mse {held:.3f}")
print(f"variance of the target {y_va.var():.3f}")
