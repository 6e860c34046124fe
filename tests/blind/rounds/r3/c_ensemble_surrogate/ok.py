import math

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SEED, MEMBERS, EPOCHS, BATCH = 13, 5, 40, 32
torch.manual_seed(SEED)


def simulator(x):
    """peak stress of a loaded plate with a hole (toy closed form)"""
    a, b, load = x.T
    return load * (1 + 2 * torch.exp(-3 * a) + 0.5 * torch.sin(6 * b) * a)


def design_points(n, seed, low=0.0, high=1.0):
    g = torch.Generator().manual_seed(seed)
    x = low + (high - low) * torch.rand(n, 3, generator=g)
    y = simulator(x) + 0.02 * torch.randn(n, generator=g)
    return x, y


def make_member():
    return nn.Sequential(nn.Linear(3, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))


def train_member(x, y):
    net = make_member()
    loader = DataLoader(TensorDataset(x, y), batch_size=BATCH, shuffle=True)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS)
    net.train()
    for _ in range(EPOCHS):
        for xb, yb in loader:
            loss = nn.functional.mse_loss(net(xb).squeeze(1), yb)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        scheduler.step()
    return net.eval(), loss.item()


@torch.no_grad()
def predict(members, x):
    out = torch.stack([m(x).squeeze(1) for m in members])
    return out.mean(0), out.std(0)


x, y = design_points(200, seed=1)
x_mean, x_std, y_mean, y_std = x.mean(0), x.std(0), y.mean(), y.std()
members = []
for k in range(MEMBERS):
    torch.manual_seed(SEED + k)
    net, loss = train_member((x - x_mean) / x_std, (y - y_mean) / y_std)
    members.append(net)
    print(f"member {k}: last batch loss {loss:.5f}")

test_x, test_y = design_points(500, seed=2)
mean, spread = predict(members, (test_x - x_mean) / x_std)
mean, spread = mean * y_std + y_mean, spread * y_std
rmse = (mean - test_y).pow(2).mean().sqrt().item()
covered = ((mean - test_y).abs() < 2 * (spread ** 2 + 0.02 ** 2).sqrt()).float().mean().item()
print(f"rmse {rmse:.4f}, mean spread {spread.mean().item():.4f}, within 2 sigma {covered:.3f}")
