import math
import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(12)


def arms(n, classes, wind):
    y = torch.randint(0, classes, (n,))
    r = 0.2 + 0.8 * torch.rand(n)
    a = 2 * math.pi * y / classes + wind * r + 0.08 * torch.randn(n)
    return torch.stack([r * a.cos(), r * a.sin()], 1) * 2, y


def accuracy(net, data):
    net.eval()
    with torch.no_grad():
        return (net(data[0]).argmax(1) == data[1]).float().mean().item()


def train(net, opt, data, valid, epochs, tag):
    x, y = data
    for epoch in range(epochs):
        net.train()
        total = 0.0
        for idx in torch.randperm(len(x)).split(100):
            loss = F.cross_entropy(net(x[idx]), y[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(idx)
        if epoch % 2:
            print(f"{tag} epoch {epoch} loss {total / len(x):.3f} valid {accuracy(net, valid):.3f}")


def adapt(net, classes):
    old = net[-1]
    net[-1] = nn.Linear(old.in_features, classes)
    return net


net = nn.Sequential(nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 2))
opt = torch.optim.Adam(net.parameters(), lr=5e-3)
train(net, opt, arms(1500, 2, 3.0), arms(400, 2, 3.0), 8, "source")

net = adapt(net, 5)
opt = torch.optim.Adam([{"params": net[:-1].parameters(), "lr": 3e-3}, {"params": net[-1].parameters(), "lr": 5e-3}])
train(net, opt, arms(2000, 5, 3.0), arms(400, 5, 3.0), 12, "target")
