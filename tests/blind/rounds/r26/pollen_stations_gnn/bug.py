"""Birch pollen of tomorrow at all stations of a network, from today's values (message passing)."""
import math

import torch
from torch import nn

torch.set_num_threads(1)
STATIONS, NEIGHBOURS, DAYS = 90, 10, 900


def network(gen):
    """Stations on a 400 x 300 km field and the link strengths of the ten nearest (by distance)."""
    pos = torch.rand(STATIONS, 2, generator=gen) * torch.tensor([400.0, 300.0])
    dist = torch.cdist(pos, pos) + torch.eye(STATIONS) * 1e6
    near = dist.topk(NEIGHBOURS, largest=False).indices
    link = torch.zeros(STATIONS, STATIONS)
    link.scatter_(1, near, torch.exp(-dist.gather(1, near) / 60.0))
    return pos, link


def simulate(pos, link, gen):
    """Features per station and day: ln pollen per m3, temperature, rain, wind; target: ln pollen tomorrow."""
    trees = 0.8 * torch.randn(STATIONS, generator=gen)
    rows, target = [], []
    for _ in range(DAYS):
        k = torch.randn(3, 2, generator=gen) / 130.0
        wave = sum(torch.cos(pos @ k[j] + 6.28 * torch.rand(1, generator=gen)) for j in range(3))
        pollen = 3.0 + trees + 0.9 * wave + 0.7 * torch.randn(STATIONS, generator=gen)
        temp = 14 + 4 * torch.randn(1, generator=gen) + torch.randn(STATIONS, generator=gen)
        rain = torch.relu(3 * torch.randn(STATIONS, generator=gen) - 1)
        wind = 2 + 3 * torch.rand(1, generator=gen).expand(STATIONS)
        brought = (link @ (pollen - 3.0)) * wind / 5
        ahead = 0.5 * pollen + 0.55 * brought + 0.08 * (temp - 14) - 0.35 * torch.log1p(rain) + 1.2
        rows.append(torch.stack([pollen, temp, rain, wind], 1))
        target.append(ahead + 0.2 * torch.randn(STATIONS, generator=gen))
    return torch.stack(rows), torch.stack(target)


class Hop(nn.Module):
    """Own state plus the sum of what the linked stations send; links are left out at random in training."""

    def __init__(self, width, keep):
        super().__init__()
        self.own, self.send = nn.Linear(width, width), nn.Linear(width, width)
        self.keep = keep

    def forward(self, h, link):
        if self.training:
            alive = torch.rand(len(h), *link.shape) < self.keep
            link = link * alive
        return h + torch.tanh(self.own(h) + link @ self.send(h))


class PollenNet(nn.Module):
    def __init__(self, features=4, width=32, keep=0.5):
        super().__init__()
        self.lift = nn.Sequential(nn.Linear(features, width), nn.GELU(), nn.Linear(width, width))
        self.hops = nn.ModuleList([Hop(width, keep), Hop(width, keep)])
        self.read = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, 1))

    def forward(self, x, link):
        h = self.lift(x)
        for hop in self.hops:
            h = hop(h, link)
        return self.read(h).squeeze(-1)


def mae(net, x, y, link, scale):
    net.eval()
    with torch.no_grad():
        return (net(x, link) - y).abs().mean().item() * scale


def main():
    torch.manual_seed(12)
    gen = torch.Generator().manual_seed(12)
    pos, link = network(gen)
    x, y = simulate(pos, link, gen)
    cut = 720
    xm, xs = x[:cut].mean((0, 1)), x[:cut].std((0, 1))
    ym, ys = y[:cut].mean(), y[:cut].std()
    x, y = (x - xm) / xs, (y - ym) / ys

    net = PollenNet()
    epochs, batch, peak = 10, 24, 3e-3
    opt = torch.optim.AdamW(net.parameters(), lr=peak, weight_decay=1e-3)
    for epoch in range(1, epochs + 1):
        for group in opt.param_groups:
            group["lr"] = peak * (0.05 + 0.475 * (1 + math.cos(math.pi * (epoch - 1) / epochs)))
        net.train()
        losses = []
        for i in torch.randperm(cut).split(batch):
            loss = nn.functional.mse_loss(net(x[i], link), y[i])
            opt.zero_grad()
            loss.backward()
            opt.step()
            losses.append(loss.item())
        if epoch % 2 == 0:
            err = mae(net, x[cut:], y[cut:], link, ys.item())
            print(f"epoch {epoch:2d}  train mse {sum(losses) / len(losses):.4f}  last 180 days: MAE {err:.3f} ln(1/m3)")


if __name__ == "__main__":
    main()
