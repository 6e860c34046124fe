"""Next-day birch pollen (log grains per m3) from ten days of weather and counts, GRU with early stopping."""
from copy import deepcopy
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


@dataclass
class Config:
    seed: int = 3
    stations: int = 10
    seasons: int = 9
    days: int = 70
    window: int = 10
    hidden: int = 40
    lr: float = 1e-3
    batch: int = 64
    max_steps: int = 900
    eval_every: int = 20
    patience: int = 10


def simulate(cfg):
    """Returns windows (n, window, 5), targets (n,) and the season of each window."""
    rng = np.random.default_rng(cfg.seed)
    xs, ys, season = [], [], []
    for s in range(cfg.stations):
        trees = rng.normal(0, 0.4)
        for yr in range(cfg.seasons):
            onset, n = rng.normal(25, 6), cfg.days
            temp = np.zeros(n)
            rain = (rng.random(n) < 0.3) * rng.gamma(1.2, 4.0, n)
            for d in range(1, n):
                temp[d] = 0.8 * temp[d - 1] + rng.normal(0, 1.8)
            temp = temp + 6 + 0.18 * np.arange(n)
            wind = rng.gamma(4, 0.9, n)
            heat = np.cumsum(np.maximum(temp - 5, 0))
            bloom = 4.5 * np.exp(-((np.arange(n) - onset) / 13) ** 2)
            logc, level = np.zeros(n), 0.0
            for d in range(1, n):
                release = bloom[d] + 0.16 * (temp[d - 1] - 10) + 0.12 * wind[d - 1] - 0.7 * np.log1p(rain[d - 1])
                level = 0.55 * level + 0.45 * release
                logc[d] = trees + level + rng.normal(0, 0.25)
            feats = np.stack([logc, temp, np.log1p(rain), wind, heat / 100], 1)
            for d in range(cfg.window, n):
                xs.append(feats[d - cfg.window:d])
                ys.append(logc[d])
                season.append(yr)
    return np.array(xs, np.float32), np.array(ys, np.float32), np.array(season)


class PollenNet(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.gru = nn.GRU(5, hidden, batch_first=True)
        self.head = nn.Linear(hidden, 1)

    def forward(self, x):
        return self.head(self.gru(x)[0][:, -1])


@torch.no_grad()
def predict(model, x):
    model.eval()
    return torch.cat([model(xb) for xb in x.split(512)])


def val_mae(model, x, y):
    return (predict(model, x) - y).abs().mean().item()


def report(model, x, y, scale, mean, name):
    err = (predict(model, x).flatten() - y).numpy() * scale
    ref = (x[:, -1, 0].numpy() * scale + mean) - (y.numpy() * scale + mean)
    print(f"{name}: MAE {np.abs(err).mean():.3f}  RMSE {np.sqrt((err ** 2).mean()):.3f}  persistence {np.abs(ref).mean():.3f}")


def main():
    cfg = Config()
    torch.manual_seed(cfg.seed)
    x, y, season = simulate(cfg)
    tr, va, te = season < 6, (season == 6) | (season == 7), season == 8
    mu, sd = x[tr].mean((0, 1)), x[tr].std((0, 1))
    mean, scale = mu[0], sd[0]
    x, y = torch.tensor((x - mu) / sd), torch.tensor((y - mean) / scale)
    loader = DataLoader(TensorDataset(x[tr], y[tr]), batch_size=cfg.batch, shuffle=True)
    model = PollenNet(cfg.hidden)
    opt = torch.optim.AdamW(model.parameters(), lr=cfg.lr, weight_decay=1e-3)
    loss_fn = nn.SmoothL1Loss()
    best, best_state, wait, step, running = float("inf"), None, 0, 0, []
    while step < cfg.max_steps and wait < cfg.patience:
        for xb, yb in loader:
            model.train()
            opt.zero_grad()
            loss = loss_fn(model(xb).squeeze(1), yb)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            step += 1
            running.append(loss.item())
            if step % cfg.eval_every == 0:
                mae = val_mae(model, x[va], y[va])
                print(f"step {step:4d}  train loss {np.mean(running):.4f}  val mae {mae:.4f}")
                running.clear()
                wait += 1
                if mae < best:
                    best, best_state, wait = mae, deepcopy(model.state_dict()), 0
                if wait >= cfg.patience or step >= cfg.max_steps:
                    break
    model.load_state_dict(best_state)
    report(model, x[te], y[te], scale, mean, "held-out season")


if __name__ == "__main__":
    main()
