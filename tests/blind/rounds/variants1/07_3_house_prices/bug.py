import io
import torch
from torch import nn


class Standardize(nn.Module):
    """Running mean and spread of the inputs, taken up in training mode."""

    def __init__(self, d, rate=0.05):
        super().__init__()
        self.rate = rate
        self.mean = torch.zeros(d)
        self.spread = torch.ones(d)

    def forward(self, x):
        if self.training:
            with torch.no_grad():
                self.mean = self.mean + self.rate * (x.mean(0) - self.mean)
                self.spread = self.spread + self.rate * (x.std(0) - self.spread)
        return (x - self.mean) / (self.spread + 1e-6)


def build():
    return nn.Sequential(Standardize(5), nn.Linear(5, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))


def houses(n, gen):
    area = 80 + 25 * torch.randn(n, generator=gen)
    rooms = (area / 25 + torch.randn(n, generator=gen)).round().clamp(1, 8)
    year = torch.randint(1920, 2020, (n,), generator=gen).float()
    dist = 10 * torch.rand(n, generator=gen)
    noise_db = 40 + 10 * torch.randn(n, generator=gen)
    price = area * (3 - 0.15 * dist) + 12 * rooms + (year - 1970).abs() * 0.8 - 0.6 * noise_db
    x = torch.stack([area, rooms, year, dist, noise_db], 1)
    return x, (price[:, None] + 5 * torch.randn(n, 1, generator=gen) - 200) / 75


def save(model):
    blob = io.BytesIO()
    torch.save({"model": model.state_dict()}, blob)
    return blob.getvalue()


def restore(data):
    model = build()
    model.load_state_dict(torch.load(io.BytesIO(data))["model"])
    return model.eval()


def main():
    torch.manual_seed(1)
    gen = torch.Generator().manual_seed(2)
    x, y = houses(2400, gen)
    vx, vy = houses(400, gen)
    tx, ty = houses(400, gen)
    model = build()
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    best, checkpoint = float("inf"), None
    for epoch in range(10):
        model.train()
        for idx in torch.randperm(len(x), generator=gen).split(80):
            loss = (model(x[idx]) - y[idx]).square().mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
        model.eval()
        with torch.no_grad():
            held = (model(vx) - vy).square().mean().item()
        if held < best:
            best, checkpoint = held, save(model)
        print(f"epoch {epoch} last batch {loss.item():.4f} valid {held:.4f}")
    with torch.no_grad():
        print(f"restored model: test mse {(restore(checkpoint)(tx) - ty).square().mean():.4f}, variance {ty.var():.3f}")


main()
