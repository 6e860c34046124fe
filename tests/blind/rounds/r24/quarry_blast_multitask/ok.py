"""Quarry blasts: predict ground vibration, air overpressure, fragment size and dust from the blast design."""
import configparser
import io

import numpy as np
import torch
import torch.nn as nn

CONFIG = """
[data]
blasts = 2400
holdout = 600
seed = 31

[model]
width = 64
depth = 2
dropout = 0.05

[train]
epochs = 35
batch = 64
lr = 0.003
"""
cfg = configparser.ConfigParser()
cfg.read_file(io.StringIO(CONFIG))

FEATURES = ["charge_per_delay", "burden", "spacing", "stemming", "hole_diameter", "distance",
            "rock_density", "joint_spacing", "moisture", "wind", "n_holes", "delay_ms"]
TARGETS = ["log_ppv", "air_db", "log_x50", "log_pm10"]


class BlastBook:
    """Synthetic blast book of one quarry."""

    def __init__(self, n, holdout, seed):
        rng = np.random.default_rng(seed)
        diam = rng.choice([76, 89, 102, 115], n) / 1000
        burden = 30 * diam * rng.uniform(0.8, 1.2, n)
        spacing = burden * rng.uniform(1.0, 1.4, n)
        stem = burden * rng.uniform(0.6, 1.2, n)
        charge = 55 * (diam / 0.089) ** 2 * rng.uniform(0.6, 1.4, n)
        dist = rng.lognormal(6.0, 0.5, n)
        rho, joints = rng.normal(2.65, 0.1, n), rng.gamma(4, 0.2, n)
        moist, wind = rng.beta(2, 4, n), rng.gamma(2, 1.8, n)
        holes, delay = rng.integers(8, 60, n), rng.choice([9, 17, 25, 42], n)
        scaled = dist / np.sqrt(charge)
        ppv = np.log(1140) - 1.6 * np.log(scaled) + 0.25 * (delay < 17) + rng.normal(0, 0.15, n)
        air = 165 - 24 * np.log10(dist / np.cbrt(charge)) - 6 * (stem / burden - 0.9) / 0.17 + 0.9 * wind + rng.normal(0, 1.2, n)
        powder = charge / (burden * spacing * 10)
        x50 = np.log(14) - 0.8 * np.log(powder / 0.8) + 0.45 * np.log(joints + 0.1) + 0.9 * (rho - 2.65) + rng.normal(0, 0.1, n)
        pm10 = 3.5 + 0.3 * np.log(holes) - 2.2 * moist + 0.18 * wind * (moist < 0.3) - 0.4 * np.log(dist / 400) + rng.normal(0, 0.15, n)
        x = np.stack([charge, burden, spacing, stem, diam, np.log(dist), rho, joints, moist, wind, holes, delay], 1)
        y = np.stack([ppv, air, x50, pm10], 1)
        perm = rng.permutation(n)
        self.va, self.tr = perm[:holdout], perm[holdout:]
        self.x, self.x_mean, self.x_std = self._scale(x)
        self.y, self.y_mean, self.y_std = self._scale(y)

    def _scale(self, a):
        mean, std = a[self.tr].mean(0), a[self.tr].std(0)
        return torch.from_numpy(((a - mean) / std).astype(np.float32)), mean, std


class BlastNet(nn.Module):
    def __init__(self, n_in, n_tasks, width, depth, dropout):
        super().__init__()
        layers, d = [], n_in
        for _ in range(depth):
            layers += [nn.Linear(d, width), nn.LayerNorm(width), nn.GELU(), nn.Dropout(dropout)]
            d = width
        self.trunk = nn.Sequential(*layers)
        self.heads = nn.ModuleList([self._head(width) for _ in range(n_tasks)])

    @staticmethod
    def _head(width):
        return nn.Sequential(nn.Linear(width, width // 2), nn.GELU(), nn.Linear(width // 2, 1))

    def forward(self, x):
        z = self.trunk(x)
        return torch.cat([head(z) for head in self.heads], 1)


def main():
    d, m, t = cfg["data"], cfg["model"], cfg["train"]
    torch.manual_seed(d.getint("seed"))
    book = BlastBook(d.getint("blasts"), d.getint("holdout"), d.getint("seed"))
    net = BlastNet(len(FEATURES), len(TARGETS), m.getint("width"), m.getint("depth"), m.getfloat("dropout"))
    opt = torch.optim.AdamW(net.parameters(), lr=t.getfloat("lr"), weight_decay=1e-3)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, t.getint("epochs"))
    tr, va = torch.from_numpy(book.tr), torch.from_numpy(book.va)
    for epoch in range(t.getint("epochs")):
        net.train()
        total = 0.0
        for idx in tr[torch.randperm(len(tr))].split(t.getint("batch")):
            loss = ((net(book.x[idx]) - book.y[idx]) ** 2).mean()
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            total += loss.item() * len(idx)
        sched.step()
        net.eval()
        with torch.no_grad():
            rmse = ((net(book.x[va]) - book.y[va]) ** 2).mean(0).sqrt()
        if (epoch + 1) % 5 == 0:
            per_task = "  ".join(f"{k} {v * s:.3f}" for k, v, s in zip(TARGETS, rmse.tolist(), book.y_std))
            print(f"epoch {epoch + 1:3d}  loss {total / len(tr):.4f}  val nrmse {rmse.mean():.4f}  |  {per_task}")


if __name__ == "__main__":
    main()
