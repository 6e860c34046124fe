"""Bird point counts: expected number of sightings per visit from habitat and effort."""
import math
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


@dataclass
class Config:
    n_visits: int = 8000
    hidden: int = 64
    lr: float = 2e-3
    weight_decay: float = 1e-4
    batch_size: int = 128
    epochs: int = 18
    seed: int = 11


HABITATS = ["wetland", "meadow", "forest", "urban", "shore"]


def simulate_visits(n, rng):
    habitat = rng.choice(len(HABITATS), size=n, p=[0.2, 0.25, 0.3, 0.15, 0.1])
    elev = rng.gamma(2.0, 150.0, size=n)
    cover = rng.beta(2, 2, size=n)
    doy = rng.uniform(90, 280, size=n)
    effort = rng.uniform(0.25, 2.0, size=n)
    base = np.array([1.5, 0.9, 0.6, -0.3, 1.9])[habitat]
    season = 0.9 * np.cos(2 * np.pi * (doy - 150) / 180)
    eta = base + season - 0.0015 * elev + 1.6 * cover * (habitat == 2) - 1.2 * (cover - 0.4) ** 2
    counts = rng.poisson(np.exp(eta) * effort)
    feats = np.concatenate([
        np.eye(len(HABITATS))[habitat],
        ((elev - 300) / 210)[:, None],
        ((cover - 0.5) / 0.22)[:, None],
        np.sin(2 * np.pi * doy / 365)[:, None],
        np.cos(2 * np.pi * doy / 365)[:, None],
    ], axis=1)
    return (torch.tensor(feats, dtype=torch.float32),
            torch.tensor(effort, dtype=torch.float32),
            torch.tensor(counts, dtype=torch.float32))


class CountNet(nn.Module):
    """Returns the expected count of a visit (rate per hour times hours)."""

    def __init__(self, n_in, hidden):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(n_in, hidden), nn.ReLU(),
            nn.Linear(hidden, hidden), nn.ReLU(),
            nn.Linear(hidden, 1),
        )

    def forward(self, x, effort):
        rate = F.softplus(self.body(x).squeeze(1)) + 1e-4
        return rate * effort


def poisson_deviance(mu, y):
    term = torch.where(y > 0, y * torch.log(y.clamp(min=1) / mu), torch.zeros_like(y))
    return (2 * (term - (y - mu))).mean().item()


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    mus, ys = [], []
    for x, effort, y in loader:
        mus.append(model(x, effort))
        ys.append(y)
    mu, y = torch.cat(mus), torch.cat(ys)
    return poisson_deviance(mu, y), (mu - y).abs().mean().item()


def main(cfg: Config):
    torch.manual_seed(cfg.seed)
    rng = np.random.default_rng(cfg.seed)
    x, effort, y = simulate_visits(cfg.n_visits, rng)
    n_val = cfg.n_visits // 5
    train = TensorDataset(x[n_val:], effort[n_val:], y[n_val:])
    val = TensorDataset(x[:n_val], effort[:n_val], y[:n_val])
    train_loader = DataLoader(train, batch_size=cfg.batch_size, shuffle=True)
    val_loader = DataLoader(val, batch_size=512)

    model = CountNet(x.shape[1], cfg.hidden)
    criterion = nn.PoissonNLLLoss(log_input=False)
    opt = torch.optim.AdamW(model.parameters(), lr=cfg.lr, weight_decay=cfg.weight_decay)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=cfg.epochs)

    y_train = y[n_val:]
    per_hour = (y_train.sum() / effort[n_val:].sum()).item()
    null_dev = poisson_deviance(per_hour * effort[:n_val], y[:n_val])
    print(f"{len(train)} train visits, mean count {y_train.mean():.2f}, null deviance {null_dev:.3f}")

    for epoch in range(1, cfg.epochs + 1):
        model.train()
        total = 0.0
        for xb, eb, yb in train_loader:
            opt.zero_grad()
            loss = criterion(model(xb, eb), yb)
            loss.backward()
            opt.step()
            total += loss.item() * len(yb)
        sched.step()
        dev, mae = evaluate(model, val_loader)
        print(f"epoch {epoch:2d}  train loss {total / len(train):8.4f}  "
              f"val deviance {dev:.4f}  val mae {mae:.3f}")
        if not math.isfinite(total):
            raise RuntimeError("training diverged")
    print(f"final val deviance {dev:.4f} (null {null_dev:.4f})")


if __name__ == "__main__":
    main(Config())
