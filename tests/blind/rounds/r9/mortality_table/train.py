"""Smooth death-rate surface (age x year) from a life table, Poisson likelihood.

usage: python train.py FOLDER     (FOLDER: exposures.csv, deaths.csv)
Both files list the same age/year cells.
"""
import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn

LAST_TRAIN_YEAR = 2012


def read(folder):
    exp = np.loadtxt(folder / "exposures.csv", delimiter=",", skiprows=1)
    dth = np.loadtxt(folder / "deaths.csv", delimiter=",", skiprows=1)
    table = np.column_stack([exp, dth[:, -1]])
    age, year, exposure, deaths = torch.tensor(table, dtype=torch.float32).T
    return age, year, exposure, deaths


class RateSurface(nn.Module):
    def __init__(self, width=48):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(),
                                 nn.Linear(width, 1))
        nn.init.constant_(self.net[-1].bias, -4.0)

    def forward(self, age, year):
        z = torch.stack([(age - 50) / 30, (year - 2000) / 15], 1)
        return self.net(z).squeeze(1)


def poisson_deviance(log_rate, exposure, deaths):
    mu = exposure * log_rate.exp()
    return 2 * (torch.xlogy(deaths, deaths / mu) - (deaths - mu)).mean()


@torch.no_grad()
def evaluate(net, age, year, exposure, deaths):
    net.eval()
    log_rate = net(age, year)
    crude = (deaths / exposure).log()
    net.train()
    return poisson_deviance(log_rate, exposure, deaths).item(), (log_rate - crude).pow(2).mean().sqrt().item()


def main(folder):
    torch.manual_seed(0)
    table = read(folder)
    is_train = table[1] <= LAST_TRAIN_YEAR
    train = [c[is_train] for c in table]
    valid = [c[~is_train] for c in table]
    print(f"{len(train[0])} training cells, {len(valid[0])} held-out cells (after {LAST_TRAIN_YEAR})")

    net = RateSurface()
    opt = torch.optim.Adam(net.parameters(), lr=2e-2)
    epochs, batch = 60, 64
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, epochs)
    loss_fn = nn.PoissonNLLLoss(log_input=True)
    for epoch in range(1, epochs + 1):
        total, n = 0.0, 0
        for idx in torch.randperm(len(train[0])).split(batch):
            age, year, exposure, deaths = (c[idx] for c in train)
            log_mu = net(age, year) + exposure.log()
            loss = loss_fn(log_mu, deaths) / exposure.mean() * 100
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 10.0)
            opt.step()
            total, n = total + loss.item(), n + 1
        sched.step()
        if epoch % 5 == 0:
            dev, rmse = evaluate(net, *valid)
            print(f"epoch {epoch:3d}  nll {total / n:.4f}  held-out deviance {dev:.2f}  rmse(log rate) {rmse:.3f}")

    dev, rmse = evaluate(net, *valid)
    print(f"final held-out deviance per cell {dev:.2f}, rmse of log rate {rmse:.3f}")
    with torch.no_grad():
        ages = torch.tensor([20.0, 40.0, 60.0, 80.0])
        rates = net(ages, torch.full_like(ages, 2015.0)).exp() * 1000
    print("deaths per 1000 in 2015: " + "  ".join(f"age {int(a)}: {r:.2f}" for a, r in zip(ages, rates)))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
