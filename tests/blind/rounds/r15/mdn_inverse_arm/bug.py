"""Mixture density network for an inverse problem: given the hand's height, where is the elbow?"""
import math
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

LOG2PI = math.log(2 * math.pi)


def simulate(count, seed):
    rng = torch.Generator().manual_seed(seed)
    t = torch.rand(count, 1, generator=rng)
    side = (torch.rand(count, 1, generator=rng) < 0.1 + 0.8 * t).float() * 2 - 1
    y = side * (0.4 + t.sqrt()) + 0.06 * torch.randn(count, 1, generator=rng)
    return t, y


class MixtureHead(nn.Module):
    def __init__(self, width, parts):
        super().__init__()
        self.mix = nn.Linear(width, parts)
        self.loc = nn.Linear(width, parts)
        self.raw = nn.Linear(width, parts)
        nn.init.uniform_(self.loc.bias, -1.5, 1.5)

    def forward(self, h):
        logw = torch.log_softmax(self.mix(h), dim=0)
        sigma = nn.functional.softplus(self.raw(h)) + 1e-2
        return logw, self.loc(h), sigma


class ElbowNet(nn.Module):
    def __init__(self, width=40, parts=4):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(1, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh())
        self.head = MixtureHead(width, parts)

    def forward(self, x):
        return self.head(self.body(x))


def nll(outputs, y):
    logw, mu, sigma = outputs
    logp = -0.5 * ((y - mu) / sigma) ** 2 - sigma.log() - 0.5 * LOG2PI
    return -torch.logsumexp(logw + logp, dim=1).mean()


@torch.no_grad()
def side_quality(net, n=400):
    """mean absolute error of P(elbow up | t) by sampling single queries through the mixture"""
    t = torch.linspace(0.02, 0.98, n)[:, None]
    logw, mu, _ = net(t)
    w = logw.exp()
    up = (w * (mu > 0)).sum(1, keepdim=True) / w.sum(1, keepdim=True)
    return (up - (0.1 + 0.8 * t)).abs().mean().item()


def fit(net, loader, epochs):
    opt = torch.optim.Adam(net.parameters(), lr=5e-3)
    for ep in range(1, epochs + 1):
        tot = 0.0
        for x, y in loader:
            loss = nll(net(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            tot += loss.item()
        if ep % 5 == 0:
            print(f"[{ep:02d}] train nll {tot / len(loader):.3f}")


if __name__ == "__main__":
    torch.manual_seed(0)
    xs, ys = simulate(2000, seed=1)
    loader = DataLoader(TensorDataset(xs, ys), batch_size=50, shuffle=True)
    net = ElbowNet()
    fit(net, loader, epochs=20)
    print(f"error of P(up): {side_quality(net):.4f}")
