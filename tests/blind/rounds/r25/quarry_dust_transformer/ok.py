"""PM10 at a village two hours ahead, from the quarry's hourly log (wind, crusher load, blasts, rain)."""
import math
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import nn

COLUMNS = ["wind_east_ms", "wind_north_ms", "crusher_t_h", "blast", "rain_mm", "humidity_pct", "pm10_ug_m3"]


@dataclass
class Settings:
    context: int = 12
    ahead: int = 2
    width: int = 32
    heads: int = 4
    layers: int = 2
    batch: int = 64
    epochs: int = 18
    lr: float = 0.05
    warmup: int = 150
    momentum: float = 0.9
    seed: int = 3
    hours: int = 3000
    lags: list = field(default_factory=lambda: [3, 4])


def simulate(cfg):
    rng = np.random.default_rng(cfg.seed)
    n = cfg.hours
    hour = np.arange(n) % 24
    wind = np.zeros((n, 2))
    for t in range(1, n):
        wind[t] = 0.85 * wind[t - 1] + rng.normal(0, 1.0, 2)
    work = ((hour >= 6) & (hour < 20)).astype(float)
    crusher = work * rng.uniform(120, 420, n)
    blast = (rng.random(n) < 0.10 * work).astype(float)
    rain = (rng.random(n) < 0.08) * rng.gamma(1.5, 1.5, n)
    hum = np.clip(60 + 12 * np.cos(2 * np.pi * hour / 24) + 5 * rng.normal(0, 1, n) + 3 * rain, 20, 100)
    wet = np.zeros(n)
    source = np.zeros(n)
    pm = np.full(n, 12.0)
    for t in range(1, n):
        wet[t] = 0.8 * wet[t - 1] + rain[t]
        source[t] = (0.06 * crusher[t] + 90 * blast[t]) * math.exp(-0.35 * wet[t])
        if t >= max(cfg.lags):
            toward = 1 / (1 + math.exp(-2.0 * wind[t - 3, 0]))
            plume = toward * sum(source[t - k] for k in cfg.lags) / len(cfg.lags)
        else:
            plume = 0.0
        pm[t] = 0.35 * pm[t - 1] + 6 + plume + rng.normal(0, 1.2)
    return np.column_stack([wind, crusher, blast, rain, hum, pm]).astype(np.float32)


class Forecaster(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.inp = nn.Linear(len(COLUMNS), cfg.width)
        self.pos = nn.Parameter(0.02 * torch.randn(cfg.context, cfg.width))
        layer = nn.TransformerEncoderLayer(cfg.width, cfg.heads, 2 * cfg.width, dropout=0.0, batch_first=True, norm_first=True)
        self.body = nn.TransformerEncoder(layer, cfg.layers, enable_nested_tensor=False)
        self.out = nn.Sequential(nn.LayerNorm(cfg.width), nn.Linear(cfg.width, 1))

    def forward(self, x):
        h = self.body(self.inp(x) + self.pos)
        return self.out(h[:, -1]).squeeze(-1)


class Trainer:
    def __init__(self, cfg):
        self.cfg = cfg
        log = torch.from_numpy(simulate(cfg))
        split = int(0.8 * len(log))
        self.mu, self.sd = log[:split].mean(0), log[:split].std(0)
        z = (log - self.mu) / self.sd
        self.train = self.windows(z[:split])
        self.val = self.windows(z[split:])
        torch.manual_seed(cfg.seed)
        self.model = Forecaster(cfg)
        self.opt = torch.optim.SGD(self.model.parameters(), lr=cfg.lr, momentum=cfg.momentum, nesterov=True)
        self.steps = 0
        self.per_epoch = math.ceil(len(self.train[1]) / cfg.batch)

    def windows(self, z):
        c, a = self.cfg.context, self.cfg.ahead
        x = z.unfold(0, c, 1).transpose(1, 2)[:-a]
        return x.contiguous(), z[c - 1 + a:, -1]

    def set_lr(self, step):
        total = self.cfg.epochs * self.per_epoch
        if step < self.cfg.warmup:
            f = (step + 1) / self.cfg.warmup
        else:
            f = 0.5 * (1 + math.cos(math.pi * (step - self.cfg.warmup) / (total - self.cfg.warmup)))
        for g in self.opt.param_groups:
            g["lr"] = self.cfg.lr * f

    @torch.no_grad()
    def evaluate(self):
        self.model.eval()
        x, y = self.val
        return ((self.model(x) - y).abs().mean() * self.sd[-1]).item()

    def run_epoch(self):
        self.model.train()
        x, y = self.train
        total = 0.0
        for step, j in enumerate(torch.randperm(len(y)).split(self.cfg.batch), start=self.steps):
            self.set_lr(step)
            loss = nn.functional.mse_loss(self.model(x[j]), y[j])
            self.opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.opt.step()
            total += loss.item() * len(j)
        self.steps += self.per_epoch
        return total / len(y)

    def fit(self):
        for epoch in range(1, self.cfg.epochs + 1):
            loss = self.run_epoch()
            if epoch % 3 == 1 or epoch == self.cfg.epochs:
                print(f"epoch {epoch:2d}  train {loss:.4f}  val MAE {self.evaluate():.2f} ug/m3")


if __name__ == "__main__":
    trainer = Trainer(Settings())
    trainer.fit()
    print(f"val MAE {trainer.evaluate():.3f} ug/m3 (mean {trainer.mu[-1]:.1f}, std {trainer.sd[-1]:.1f})")
