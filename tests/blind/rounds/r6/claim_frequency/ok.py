"""Motor claim frequency: Poisson network with exposure offset."""
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn


@dataclass
class Config:
    n_policies: int = 12000
    hidden: int = 32
    lr: float = 3e-3
    batch_size: int = 256
    epochs: int = 8
    seed: int = 11


def make_portfolio(n, seed):
    rng = np.random.default_rng(seed)
    age = rng.uniform(18, 80, n)
    power = rng.integers(4, 14, n).astype(float)
    bonus = rng.uniform(50, 150, n)
    density = rng.lognormal(5.5, 1.2, n)
    exposure = rng.uniform(0.2, 1.0, n)
    log_rate = (-1.6 + 0.9 * (age < 26) + 0.012 * (bonus - 80)
                + 0.06 * (power - 7) + 0.2 * (np.log(density) - 5.5))
    claims = rng.poisson(np.exp(log_rate) * exposure)
    x = np.stack([age, power, bonus, np.log(density)], 1)
    return x.astype(np.float32), exposure.astype(np.float32), claims.astype(np.float32)


class FrequencyNet(nn.Module):
    def __init__(self, n_in, hidden):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(n_in, hidden), nn.ReLU(),
                                  nn.Linear(hidden, hidden), nn.ReLU())
        self.head = nn.Linear(hidden, 1)

    def forward(self, x, exposure):
        log_rate = self.head(self.body(x)).squeeze(-1)
        return log_rate + torch.log(exposure)


def poisson_nll(log_mu, y):
    return (torch.exp(log_mu) - y * log_mu).mean()


def poisson_deviance(mu, y):
    t = torch.where(y > 0, y * torch.log(y.clamp(min=1e-9) / mu), torch.zeros_like(y))
    return 2 * (t - (y - mu)).mean().item()


class Trainer:
    def __init__(self, cfg):
        self.cfg = cfg
        torch.manual_seed(cfg.seed)
        x, e, y = make_portfolio(cfg.n_policies, cfg.seed)
        n_tr = int(0.8 * len(x))
        mean, std = x[:n_tr].mean(0), x[:n_tr].std(0)
        x = (x - mean) / std
        as_t = lambda *a: [torch.from_numpy(v) for v in a]
        self.train_set = as_t(x[:n_tr], e[:n_tr], y[:n_tr])
        self.valid_set = as_t(x[n_tr:], e[n_tr:], y[n_tr:])
        self.model = FrequencyNet(x.shape[1], cfg.hidden)
        self.opt = torch.optim.Adam(self.model.parameters(), lr=cfg.lr)

    def train_epoch(self):
        self.model.train()
        x, e, y = self.train_set
        perm = torch.randperm(len(x))
        total = 0.0
        for idx in perm.split(self.cfg.batch_size):
            log_mu = self.model(x[idx], e[idx])
            loss = poisson_nll(log_mu, y[idx])
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            total += loss.item() * len(idx)
        return total / len(x)

    @torch.no_grad()
    def validate(self):
        self.model.eval()
        x, e, y = self.valid_set
        mu = self.model(x, e).exp().reshape(-1)
        order = torch.argsort(mu / e)
        k = len(order) // 10
        low, high = order[:k], order[-k:]
        lift = (y[high].sum() / e[high].sum()) / (y[low].sum() / e[low].sum()).clamp(min=1e-3)
        return poisson_deviance(mu, y), lift.item()

    def fit(self):
        for epoch in range(self.cfg.epochs):
            loss = self.train_epoch()
            dev, lift = self.validate()
            print(f"epoch {epoch + 1}  nll {loss:.4f}  val deviance {dev:.4f}  decile lift {lift:.2f}")
        _, e, y = self.train_set
        base = y.sum() / e.sum() * self.valid_set[1]
        print(f"constant-rate deviance {poisson_deviance(base, self.valid_set[2]):.4f}")


if __name__ == "__main__":
    Trainer(Config()).fit()
