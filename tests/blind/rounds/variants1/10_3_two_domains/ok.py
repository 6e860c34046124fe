import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(44)
D = 16
rotation = torch.linalg.qr(torch.randn(D, D))[0]


def domain(n, shift, scale, rule):
    z = torch.randn(n, D)
    return (z * scale + shift) @ rotation, rule(z)


def first_rule(z):
    return (z[:, 0] > 0).long() + 2 * (z[:, 1] + z[:, 2] > 0).long()


def second_rule(z):
    return (z[:, 0] + 0.5 * z[:, 1] > 0).long()


class Shared(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(D, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU())
        self.heads = nn.ModuleDict({"first": nn.Linear(64, 4), "second": nn.Linear(64, 2)})
        self.locked = False

    def lock_body(self):
        self.locked = True
        for p in self.body.parameters():
            p.requires_grad_(False)

    def train(self, mode=True):
        super().train(mode)
        if self.locked:
            self.body.eval()
        return self

    def forward(self, x, task):
        return self.heads[task](self.body(x))


def accuracy(net, data, task):
    net.eval()
    with torch.no_grad():
        return (net(data[0], task).argmax(1) == data[1]).float().mean().item()


def fit(net, data, task, epochs, lr):
    opt = torch.optim.AdamW((p for p in net.parameters() if p.requires_grad), lr=lr)
    for _ in range(epochs):
        net.train()
        for idx in torch.randperm(len(data[0])).split(50):
            loss = F.cross_entropy(net(data[0][idx], task), data[1][idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
    return loss.item()


first, first_valid = (domain(n, 0.0, 1.0, first_rule) for n in (2000, 500))
second, second_valid = (domain(n, 1.0, 1.3, second_rule) for n in (1000, 500))
net = Shared()
fit(net, first, "first", 5, 3e-3)
print(f"first task {accuracy(net, first_valid, 'first'):.3f}")
net.lock_body()
loss = fit(net, second, "second", 8, 1e-2)
print(f"second task: loss {loss:.3f} valid {accuracy(net, second_valid, 'second'):.3f}")
print(f"first task again {accuracy(net, first_valid, 'first'):.3f}")
