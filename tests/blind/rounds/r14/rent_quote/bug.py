"""Quote a monthly rent from a handful of flat attributes."""
import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def make_flats(n, gen):
    area = 20 + 110 * torch.rand(n, generator=gen)
    rooms = (area / 28 + torch.randn(n, generator=gen) * 0.6).round().clamp(1, 7)
    floor = torch.randint(0, 9, (n,), generator=gen).float()
    dist = torch.rand(n, generator=gen) * 15
    lift = (torch.rand(n, generator=gen) < 0.4).float()
    rent = 9.5 * area + 45 * rooms - 0.35 * area * dist + 12 * floor * lift - 10 * floor * (1 - lift) + 150
    rent = rent + 35 * torch.randn(n, generator=gen)
    return torch.stack([area, rooms, floor, dist, lift], 1), rent


class LogCosh(nn.Module):
    def forward(self, pred, target):
        d = pred - target
        return (d + nn.functional.softplus(-2.0 * d) - 0.6931472).mean()


class RentNet(nn.Module):
    def __init__(self, n_in, width):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(n_in, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU())
        self.out = nn.Linear(width, 1)

    def forward(self, x):
        return self.out(self.body(x))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=25)
    ap.add_argument("--batch", type=int, default=64)
    ap.add_argument("--lr", type=float, default=3e-3)
    ap.add_argument("--seed", type=int, default=4)
    args = ap.parse_args()
    torch.manual_seed(args.seed)
    gen = torch.Generator().manual_seed(args.seed)

    x, y = make_flats(3000, gen)
    x_test, y_test = make_flats(800, gen)
    mu, sd = x.mean(0), x.std(0)
    ymu, ysd = y.mean(), y.std()
    loader = DataLoader(TensorDataset((x - mu) / sd, (y - ymu) / ysd), batch_size=args.batch, shuffle=True)

    net = RentNet(x.shape[1], 48)
    crit = LogCosh()
    opt = torch.optim.Adam(net.parameters(), lr=args.lr)
    for epoch in range(args.epochs):
        net.train()
        total = 0.0
        for xb, yb in loader:
            loss = crit(net(xb), yb)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(xb)
        if epoch % 5 == 4:
            print(f"epoch {epoch + 1:3d}  loss {total / len(x):.4f}")

    net.eval()
    with torch.no_grad():
        quote = net((x_test - mu) / sd).flatten() * ysd + ymu
    print(f"test MAE {(quote - y_test).abs().mean():.1f} EUR")


if __name__ == "__main__":
    main()
