import argparse
import math
import random

import numpy as np
import torch
from torch import nn


def get_args():
    p = argparse.ArgumentParser(description="delivery window (median and p90 hours) for parcels")
    p.add_argument("--epochs", type=int, default=25)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--bs", type=int, default=128)
    p.add_argument("--seed", type=int, default=3)
    p.add_argument("--taus", type=float, nargs="+", default=[0.5, 0.9])
    return p.parse_args()


def make_parcels(n, rng):
    hub = rng.integers(0, 12, n)
    dow = rng.integers(0, 7, n)
    km = rng.gamma(2.0, 180.0, n)
    kg = rng.gamma(1.5, 3.0, n)
    backlog = rng.random(n)
    hub_delay = np.linspace(0.0, 9.0, 12)[hub]
    mean = 6 + km / 45 + hub_delay + 10 * (dow >= 5) + 0.3 * kg
    spread = (1.5 + 8 * backlog) * (1 + 0.5 * (hub % 3 == 0))
    hours = mean + spread * rng.gamma(1.5, 1.0, n)
    num = np.stack([np.log1p(km), np.log1p(kg), backlog, km / 500], 1).astype(np.float32)
    return num, hub, dow, hours.astype(np.float32)


class WindowNet(nn.Module):
    def __init__(self, n_out):
        super().__init__()
        self.hub = nn.Embedding(12, 6)
        self.dow = nn.Embedding(7, 3)
        self.mlp = nn.Sequential(nn.Linear(13, 64), nn.SiLU(), nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, n_out))

    def forward(self, num, hub, dow):
        return self.mlp(torch.cat([num, self.hub(hub), self.dow(dow)], dim=-1))


def pinball(pred, target, taus):
    err = target.unsqueeze(-1) - pred
    return torch.maximum(taus * err, (taus - 1) * err).mean()


def main():
    args = get_args()
    random.seed(args.seed)
    torch.manual_seed(args.seed)
    rng = np.random.default_rng(args.seed)
    num, hub, dow, hours = (torch.as_tensor(a) for a in make_parcels(14000, rng))
    tr, va, te = slice(0, 10000), slice(10000, 12000), slice(12000, 14000)
    mu, sd = num[tr].mean(0), num[tr].std(0)
    num = (num - mu) / sd
    ymu, ysd = hours[tr].mean(), hours[tr].std()
    y = (hours - ymu) / ysd
    taus = torch.tensor(args.taus)

    net = WindowNet(len(args.taus))
    opt = torch.optim.Adam(net.parameters(), lr=args.lr)
    steps = args.epochs * math.ceil(10000 / args.bs)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=args.lr, total_steps=steps)

    for ep in range(args.epochs):
        net.train()
        running = 0.0
        for idx in torch.randperm(10000).split(args.bs):
            pred = net(num[idx], hub[idx], dow[idx])
            loss = pinball(pred, y[idx], taus)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            sched.step()
            running += loss.item() * len(idx)
        net.eval()
        with torch.no_grad():
            pv = net(num[va], hub[va], dow[va])
            vloss = pinball(pv, y[va], taus).item()
        if ep % 4 == 0 or ep == args.epochs - 1:
            print(f"ep {ep:2d} train {running / 10000:.4f} val {vloss:.4f}")

    with torch.no_grad():
        late = net(num[te], hub[te], dow[te])[:, -1] * ysd + ymu
    covered = (hours[te] <= late).float().mean().item()
    print(f"share of test parcels inside the p90 window {covered:.4f}")


if __name__ == "__main__":
    main()
