import json
import sys

import torch
from torch import nn

with open(sys.argv[1] + "/settings.json") as f:
    S = json.load(f)
torch.manual_seed(S["seed"])


def lift(x):
    """thin-airfoil lift with a smooth stall and a Mach correction"""
    alpha, camber, mach = x[:, 0], x[:, 1], x[:, 2]
    slope = 0.11 / torch.sqrt(1 - mach ** 2)
    return slope * (alpha + 60 * camber) * torch.sigmoid((15 - alpha) / 2)


def simulate(n, seed):
    g = torch.Generator().manual_seed(seed)
    low, high = torch.tensor([-5.0, 0.0, 0.1]), torch.tensor([18.0, 0.06, 0.6])
    x = low + (high - low) * torch.rand(n, 3, generator=g)
    return x, lift(x) + 0.01 * torch.randn(n, generator=g)


class Surrogate(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh(), nn.Linear(hidden, 1))

    def forward(self, x):
        return self.net(x).squeeze(1)


@torch.no_grad()
def r2(model, x, y):
    model.eval()
    out = 1 - (model(x) - y).pow(2).sum() / (y - y.mean()).pow(2).sum()
    model.train()
    return out.item()


raw_x, raw_y = simulate(800, seed=1)
raw_vx, raw_vy = simulate(200, seed=2)
mx, sx, my, sy = raw_x.mean(0), raw_x.std(0), raw_y.mean(), raw_y.std()
x, y, vx, vy = (raw_x - mx) / sx, (raw_y - my) / sy, (raw_vx - mx) / sx, (raw_vy - my) / sy
model = Surrogate(S["hidden"])
optimizer = torch.optim.SGD(model.parameters(), lr=S["lr"], momentum=S["momentum"])
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, S["epochs"])
print(f"settings {S}")
model.train()
for epoch in range(1, S["epochs"] + 1):
    total, n = 0.0, 0
    for idx in torch.randperm(len(x)).split(S["batch_size"]):
        loss = nn.functional.mse_loss(model(x[idx]), y[idx])
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), S["max_grad_norm"])
        optimizer.step()
        total, n = total + loss.item(), n + 1
    scheduler.step()
    if epoch % 5 == 0:
        print(f"epoch {epoch} loss {total / n:.4f} val r2 {r2(model, vx, vy):.4f}")
print(f"validation R2 {r2(model, vx, vy):.4f}")
