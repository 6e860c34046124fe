import copy
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(43)
MOST = 24


def stations(n):
    """Each station sends between 2 and 24 readings; wanted: mean of a nonlinear quantity over its readings."""
    count = torch.randint(2, MOST + 1, (n,))
    count = torch.where(torch.rand(n) < 0.5, torch.randint(2, 6, (n,)), count)
    centre = torch.randn(n, 1, 2)
    reading = centre + 0.7 * torch.randn(n, MOST, 2)
    real = (torch.arange(MOST)[None] < count[:, None]).float().unsqueeze(-1)
    quantity = torch.sin(2 * reading[..., :1]) + reading[..., :1] * reading[..., 1:]
    target = (quantity * real).sum(1) / real.sum(1)
    return reading * real, real, target


class SetNet(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.each = nn.Sequential(nn.Linear(2, dim), nn.ReLU(), nn.Linear(dim, dim), nn.ReLU())
        self.all = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, 1))

    def pool(self, h, real):
        return (h * real).sum(dim=1) / real.sum(dim=1)

    def forward(self, reading, real):
        return self.all(self.pool(self.each(reading), real))


class Averaged:
    def __init__(self, model, keep=0.97):
        self.shadow, self.keep = copy.deepcopy(model).eval(), keep

    @torch.no_grad()
    def update(self, model):
        for s, p in zip(self.shadow.parameters(), model.parameters()):
            s.lerp_(p, 1 - self.keep)


train, val = stations(2000), stations(500)
model = SetNet()
average = Averaged(model)
opt = torch.optim.Adam(model.parameters(), lr=3e-3)
for epoch in range(8):
    model.train()
    for rows in torch.randperm(2000).split(50):
        reading, real, target = (t[rows] for t in train)
        loss = F.mse_loss(model(reading, real), target)
        opt.zero_grad()
        loss.backward()
        opt.step()
        average.update(model)
    with torch.no_grad():
        reading, real, target = val
        error = F.mse_loss(average.shadow(reading, real), target)
    print(f"epoch {epoch} train {loss.item():.4f} val {error.item():.4f} variance {target.var().item():.3f}")
