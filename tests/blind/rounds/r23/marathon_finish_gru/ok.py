from dataclasses import dataclass

import numpy as np
import torch
from torch import nn


@dataclass
class Config:
    n_runners: int = 2000
    n_val: int = 500
    hidden: int = 32
    batch_size: int = 64
    epochs: int = 14
    lr: float = 3e-3
    seed: int = 17


CHANNELS = ["pace", "heart_rate", "cadence", "grade", "temperature"]


def simulate_race(rng, n_seg=24):
    """Half-way record of one runner: five signals over 24 segments, and minutes for the second half."""
    fitness = rng.normal(0, 1)
    base_pace = 5.4 - 0.55 * fitness + rng.normal(0, 0.1)
    optimism = rng.normal(0, 0.25)
    grade = np.convolve(rng.normal(0, 1.5, n_seg + 4), np.ones(5) / 5, "valid")
    temp = rng.uniform(6, 24) + np.linspace(0, rng.uniform(0, 4), n_seg)
    drift = np.clip(rng.normal(0.8, 0.5) + 1.2 * optimism + 0.04 * (temp.mean() - 12), 0, None)
    k = np.linspace(0, 1, n_seg)
    pace = base_pace - 0.3 * optimism + 0.15 * grade + 0.25 * drift * k ** 2 + rng.normal(0, 0.12, n_seg)
    hr = 158 + 6 * optimism + 10 * drift * k + 2.0 * grade + rng.normal(0, 2.5, n_seg) + rng.normal(0, 6)
    cadence = 176 + 3 * fitness - 5 * drift * k + rng.normal(0, 1.5, n_seg)
    # runners who fade early slow down much more after the wall
    fade = 0.35 * drift + 0.5 * max(drift - 1.2, 0) ** 2 + 0.02 * max(temp[-1] - 16, 0)
    second_half = 21.1 * (base_pace + fade) + rng.normal(0, 1.0)
    return np.stack([pace, hr, cadence, grade, temp]), second_half


def load(cfg):
    rng = np.random.default_rng(cfg.seed)
    races = [simulate_race(rng) for _ in range(cfg.n_runners)]
    x = np.stack([r[0] for r in races]).astype(np.float32)
    y = np.array([r[1] for r in races], dtype=np.float32)
    return torch.from_numpy(x), torch.from_numpy(y)


class FinishGRU(nn.Module):
    def __init__(self, n_in, hidden):
        super().__init__()
        self.gru = nn.GRU(n_in, hidden, batch_first=True)
        self.head = nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1))

    def forward(self, x):
        # x: (batch, channels, segments) as recorded
        b, c, t = x.shape
        seq = x.permute(0, 2, 1).reshape(b, t, c)
        _, h = self.gru(seq)
        return self.head(h[-1]).squeeze(-1)


def main(cfg):
    torch.manual_seed(cfg.seed)
    x, y = load(cfg)
    n_tr = cfg.n_runners - cfg.n_val
    mu = x[:n_tr].mean(dim=(0, 2), keepdim=True)
    sd = x[:n_tr].std(dim=(0, 2), keepdim=True)
    x = (x - mu) / sd
    y_mu, y_sd = y[:n_tr].mean(), y[:n_tr].std()

    model = FinishGRU(len(CHANNELS), cfg.hidden)
    optim = torch.optim.Adam(model.parameters(), lr=cfg.lr)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(optim, cfg.epochs)

    for ep in range(cfg.epochs):
        model.train()
        order = torch.randperm(n_tr)
        running = 0.0
        for idx in order.split(cfg.batch_size):
            pred = model(x[idx])
            loss = nn.functional.smooth_l1_loss(pred, (y[idx] - y_mu) / y_sd)
            optim.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optim.step()
            running += loss.item() * len(idx)
        sched.step()
        model.eval()
        with torch.no_grad():
            val = model(x[n_tr:]) * y_sd + y_mu
            mae = (val - y[n_tr:]).abs().mean().item()
        if ep % 2 == 0 or ep == cfg.epochs - 1:
            print(f"[{ep:02d}] train {running / n_tr:.4f} | val MAE {mae:.2f} min")


if __name__ == "__main__":
    main(Config())
