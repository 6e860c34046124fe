"""Nitrate threshold model: conditional P50 / P90 / P97 from sonde readings."""
import argparse
import logging

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
log = logging.getLogger("nitrate")

QUANTILES = (0.5, 0.9, 0.97)
COLUMNS = ["temp_c", "turbidity_ntu", "conductivity", "discharge", "doy_sin", "doy_cos"]


def load_readings(n, seed):
    rng = np.random.default_rng(seed)
    doy = rng.uniform(0, 365, n)
    temp = 11 - 8 * np.cos(2 * np.pi * (doy - 20) / 365) + rng.normal(0, 1.5, n)
    discharge = rng.lognormal(1.0, 0.7, n)
    turb = 3 * discharge ** 0.8 * rng.lognormal(0, 0.3, n)
    cond = 650 - 60 * np.log(discharge) + rng.normal(0, 40, n)
    base = 2.0 + 0.9 * np.log1p(discharge) + 0.004 * (cond - 500) - 0.05 * temp
    spread = 0.15 + 0.25 * np.log1p(turb) * (np.cos(2 * np.pi * doy / 365) + 1.2) / 2
    nitrate = base + spread * (rng.gamma(2.0, 1.0, n) - 1.0)
    x = np.stack([temp, turb, cond, discharge, np.sin(2 * np.pi * doy / 365), np.cos(2 * np.pi * doy / 365)], 1)
    return x.astype(np.float32), nitrate.astype(np.float32)


class Scaler:
    def fit(self, x):
        self.mean, self.std = x.mean(0), x.std(0) + 1e-6
        return self

    def __call__(self, x):
        return (x - self.mean) / self.std


class QuantileNet(nn.Module):
    def __init__(self, n_in, n_q, width=64):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(n_in, width), nn.SiLU(),
            nn.Linear(width, width), nn.SiLU(),
        )
        self.heads = nn.Linear(width, n_q)

    def forward(self, x):
        return self.heads(self.body(x))


class PinballLoss(nn.Module):
    def __init__(self, quantiles):
        super().__init__()
        self.register_buffer("q", torch.tensor(quantiles))

    def forward(self, pred, target):
        err = pred - target.unsqueeze(1)
        return torch.maximum(self.q * err, (self.q - 1) * err).mean()


def run_epoch(model, loader, loss_fn, optimizer=None):
    model.train(optimizer is not None)
    total, count = 0.0, 0
    with torch.set_grad_enabled(optimizer is not None):
        for xb, yb in loader:
            loss = loss_fn(model(xb), yb)
            if optimizer is not None:
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            total += loss.item() * len(xb)
            count += len(xb)
    return total / count


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=16)
    p.add_argument("--batch-size", type=int, default=128)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--seed", type=int, default=7)
    args = p.parse_args()
    torch.manual_seed(args.seed)

    x_tr, y_tr = load_readings(8000, 1)
    x_va, y_va = load_readings(1500, 2)
    x_te, y_te = load_readings(3000, 3)
    sx, sy = Scaler().fit(x_tr), Scaler().fit(y_tr)

    def to_ds(x, y):
        return TensorDataset(torch.from_numpy(sx(x)), torch.from_numpy(sy(y)))

    train = DataLoader(to_ds(x_tr, y_tr), batch_size=args.batch_size, shuffle=True)
    valid = DataLoader(to_ds(x_va, y_va), batch_size=512)

    model = QuantileNet(len(COLUMNS), len(QUANTILES))
    loss_fn = PinballLoss(QUANTILES)
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=1e-4)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, args.epochs)

    best, best_state = float("inf"), None
    for epoch in range(args.epochs):
        tr = run_epoch(model, train, loss_fn, opt)
        va = run_epoch(model, valid, loss_fn)
        sched.step()
        if va < best:
            best, best_state = va, {k: v.clone() for k, v in model.state_dict().items()}
        if epoch % 5 == 0:
            log.info("epoch %02d train %.4f valid %.4f", epoch, tr, va)

    model.load_state_dict(best_state)
    model.eval()
    with torch.no_grad():
        pred = model(torch.from_numpy(sx(x_te))).numpy() * sy.std + sy.mean
    below = (y_te[:, None] <= pred).mean(0)
    for q, c in zip(QUANTILES, below):
        log.info("P%02d: share of samples below threshold %.3f", int(q * 100), c)
    log.info("best valid pinball %.4f", best)
    print(f"calibration_error_p90 {abs(below[1] - 0.9):.4f}")


if __name__ == "__main__":
    main()
