"""Night minimum at canopy height in an apple orchard, with an error bar, from the
hourly record of the farm station up to 18:00. The sprinklers are switched on the
probability that the canopy falls below -1.8 degC, so the spread matters as much as the mean."""
import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

CHANNELS = ["air_temp_c", "dew_point_c", "wind_ms", "net_rad_wm2", "pressure_trend_hpa"]


@dataclass
class Settings:
    nights: int = 2100
    hours: int = 24
    width: int = 24
    batch: int = 64
    epochs: int = 16
    lr: float = 2e-3
    seed: int = 5


def simulate(cfg, rng):
    n, h = cfg.nights, cfg.hours
    t = np.arange(h)
    base = rng.normal(6.0, 3.5, n)[:, None]
    swing = rng.uniform(2, 7, n)[:, None]
    cloud = rng.beta(0.7, 0.7, n)[:, None]
    air = base + swing * np.sin((t - 5) / 24 * 2 * np.pi)[None] + rng.normal(0, 0.4, (n, h))
    dew = base - rng.uniform(1, 8, n)[:, None] + rng.normal(0, 0.4, (n, h))
    wind = np.abs(rng.gamma(2.0, 1.2, n)[:, None] + rng.normal(0, 0.4, (n, h)))
    rad = (1 - cloud) * 520 * np.clip(np.sin((t - 2) / 18 * np.pi), 0, None)[None] - 60 * (1 - cloud)
    rad = rad + rng.normal(0, 15, (n, h))
    trend = rng.normal(0, 1.2, n)[:, None] + rng.normal(0, 0.2, (n, h))
    calm = np.exp(-wind[:, -6:].mean(1) / 1.5)
    cooling = 3.0 + 6.5 * (1 - cloud[:, 0]) * (0.35 + calm)
    floor = 0.35 * np.maximum(dew[:, -6:].mean(1) - (air[:, -6:].mean(1) - cooling), 0)
    mean = air[:, -6:].mean(1) - cooling + floor - 0.5 * trend[:, -4:].mean(1)
    sigma = 0.18 + 3.2 * cloud[:, 0] ** 2 * (0.3 + 0.7 * (trend[:, -4:].mean(1) < 0))
    low = mean + sigma * rng.normal(0, 1, n)
    x = np.stack([air, dew, wind, rad, trend], 1)
    return x.astype(np.float32), low.astype(np.float32)


class CausalBlock(nn.Module):
    def __init__(self, width, dilation):
        super().__init__()
        self.pad = nn.ConstantPad1d((2 * dilation, 0), 0.0)
        self.conv = nn.Conv1d(width, width, 3, dilation=dilation)
        self.norm = nn.GroupNorm(4, width)

    def forward(self, x):
        return x + torch.relu(self.norm(self.conv(self.pad(x))))


class FrostNet(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.stem = nn.Conv1d(len(CHANNELS), width, 1)
        self.blocks = nn.Sequential(*[CausalBlock(width, d) for d in (1, 2, 4)])
        self.head = nn.Sequential(nn.Linear(2 * width, 32), nn.ReLU(), nn.Linear(32, 2))

    def forward(self, x):
        z = self.blocks(self.stem(x))
        out = self.head(torch.cat([z[:, :, -1], z.mean(2)], 1))
        return out[:, 0], out[:, 1].clamp(-6, 4)


def gaussian_cost(low, centre, logvar):
    return 0.5 * (logvar + (low - centre) ** 2 * torch.exp(-logvar)).mean()


@torch.no_grad()
def assess(net, x, low, y_mean, y_std):
    net.eval()
    centre, logvar = net(x)
    centre = centre.numpy().ravel() * y_std + y_mean
    sd = np.exp(0.5 * logvar.numpy().ravel()) * y_std
    z = (low - centre) / sd
    nll = np.mean(0.5 * z ** 2 + np.log(sd) + 0.5 * math.log(2 * math.pi))
    return nll, np.abs(low - centre).mean(), np.corrcoef(sd, np.abs(low - centre))[0, 1]


def main():
    cfg = Settings()
    torch.manual_seed(cfg.seed)
    rng = np.random.default_rng(cfg.seed)
    x, low = simulate(cfg, rng)
    cut = int(0.8 * cfg.nights)
    mu, sd = x[:cut].mean((0, 2), keepdims=True), x[:cut].std((0, 2), keepdims=True)
    x = torch.from_numpy((x - mu) / sd)
    y_mean, y_std = low[:cut].mean(), low[:cut].std()
    y = torch.from_numpy((low - y_mean) / y_std)
    net = FrostNet(cfg.width)
    opt = torch.optim.AdamW(net.parameters(), lr=cfg.lr, weight_decay=1e-4)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, cfg.epochs)
    for epoch in range(1, cfg.epochs + 1):
        net.train()
        total = 0.0
        for idx in torch.randperm(cut).split(cfg.batch):
            centre, logvar = net(x[idx])
            loss = gaussian_cost(y[idx], centre, logvar)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 5.0)
            opt.step()
            total += loss.item() * len(idx)
        sched.step()
        if epoch % 4 == 0 or epoch == cfg.epochs:
            nll, mae, link = assess(net, x[cut:], low[cut:], y_mean, y_std)
            print(f"epoch {epoch:2d}  train {total / cut:.3f}  val NLL {nll:.3f}  "
                  f"val MAE {mae:.2f} degC  spread-error corr {link:.2f}")


if __name__ == "__main__":
    main()
