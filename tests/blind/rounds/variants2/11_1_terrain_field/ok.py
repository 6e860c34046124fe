import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(81)


def height(xy):
    x, y = xy.unbind(1)
    return torch.sin(3 * x) * torch.cos(2 * y) + 0.5 * x * y + torch.exp(-4 * (x ** 2 + y ** 2))


def survey(n):
    xy = 2 * torch.rand(n, 2) - 1
    return xy, height(xy) + 0.05 * torch.randn(n)


class Terrain(nn.Module):
    def __init__(self, width=48, depth=3):
        super().__init__()
        sizes = [2] + [width] * depth
        self.hidden = nn.ModuleList(nn.Linear(a, b) for a, b in zip(sizes, sizes[1:]))
        self.last = nn.Linear(width, 1)

    def forward(self, xy):
        h = xy
        for layer in self.hidden:
            h = layer(h)
            h = F.silu(h)
        return self.last(h).squeeze(-1)


def closure_for(model, optimizer, xy, z):
    def closure():
        optimizer.zero_grad()
        loss = F.mse_loss(model(xy), z)
        loss.backward()
        return loss
    return closure


def explained(model, xy, z):
    model.eval()
    with torch.no_grad():
        rest = (model(xy) - z).var() / z.var()
    model.train()
    return 1 - rest.item()


xy_train, z_train = survey(1500)
xy_val, z_val = survey(400)
model = Terrain()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
for step in range(1, 351):
    rows = torch.randint(0, len(xy_train), (64,))
    loss = optimizer.step(closure_for(model, optimizer, xy_train[rows], z_train[rows]))
    if step % 70 == 0:
        print(f"step {step} loss {loss.item():.4f} val explained {explained(model, xy_val, z_val):.3f}")
