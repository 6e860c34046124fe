"""Short-term load model for residential smart meters."""
import logging
import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
log = logging.getLogger("load")


@dataclass
class Config:
    n_meters: int = 24
    n_days: int = 56
    val_days: int = 10
    batch_size: int = 256
    epochs: int = 8
    lr: float = 2e-3
    delta: float = 0.5
    seed: int = 7


def simulate(cfg):
    rng = np.random.default_rng(cfg.seed)
    hours = np.arange(cfg.n_days * 24)
    temp = 9 + 5 * np.sin(2 * np.pi * hours / (24 * 9)) + 4 * np.sin(2 * np.pi * (hours % 24 - 9) / 24)
    temp = temp + rng.normal(0, 1.0, len(hours))
    load = np.zeros((cfg.n_meters, len(hours)))
    size = rng.integers(1, 6, cfg.n_meters)
    heat = rng.uniform(0, 0.12, cfg.n_meters)
    for m in range(cfg.n_meters):
        h = (hours % 24 + rng.normal(0, 0.5)) % 24
        morning = np.exp(-0.5 * ((h - 7.5) / 1.3) ** 2)
        evening = np.exp(-0.5 * ((h - 19.5) / 2.2) ** 2)
        weekend = ((hours // 24) % 7 >= 5).astype(float)
        base = 0.15 + 0.05 * size[m]
        load[m] = base + 0.25 * size[m] * (morning * (1 - 0.6 * weekend) + 1.3 * evening)
        load[m] += heat[m] * np.clip(15 - temp, 0, None) + 0.15 * size[m] * weekend
        load[m] *= rng.lognormal(0, 0.12, len(hours))
    return load, temp, size


def build_rows(load, temp, size, first_day, last_day):
    xs, ys = [], []
    for m in range(load.shape[0]):
        for t in range(first_day * 24, last_day * 24):
            hod, dow = t % 24, (t // 24) % 7
            xs.append([
                math.sin(2 * math.pi * hod / 24), math.cos(2 * math.pi * hod / 24),
                math.sin(4 * math.pi * hod / 24), math.cos(4 * math.pi * hod / 24),
                float(dow >= 5), temp[t], size[m],
                load[m, t - 24], load[m, t - 48], load[m, t - 168], load[m, t - 168:t - 24].mean(),
            ])
            ys.append(load[m, t])
    return np.array(xs, dtype=np.float32), np.array(ys, dtype=np.float32)


class MeterDataset(Dataset):
    def __init__(self, x, y, mean, std):
        self.x = torch.from_numpy((x - mean) / std)
        self.y = torch.from_numpy(y)

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


class LoadNet(nn.Module):
    def __init__(self, n_in, width=64):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(n_in, width), nn.ReLU(),
            nn.Linear(width, width), nn.ReLU(),
            nn.Linear(width, 1),
        )

    def forward(self, x):
        return self.body(x)


def huber(pred, target, delta):
    err = (pred - target).abs()
    quad = err.clamp(max=delta)
    return (0.5 * quad ** 2 + delta * (err - quad)).mean()


class Trainer:
    def __init__(self, cfg, model):
        self.cfg = cfg
        self.model = model
        self.opt = torch.optim.Adam(model.parameters(), lr=cfg.lr)

    def fit(self, loader, val_loader):
        for epoch in range(self.cfg.epochs):
            self.model.train()
            total, n = 0.0, 0
            for x, y in loader:
                pred = self.model(x)
                loss = huber(pred, y, self.cfg.delta)
                self.opt.zero_grad()
                loss.backward()
                self.opt.step()
                total += loss.item() * len(y)
                n += len(y)
            mae, r2 = self.evaluate(val_loader)
            log.info("epoch %d train_loss %.4f val_mae %.4f val_r2 %.3f", epoch, total / n, mae, r2)

    @torch.no_grad()
    def evaluate(self, loader):
        self.model.eval()
        preds, trues = [], []
        for x, y in loader:
            preds.append(self.model(x).flatten())
            trues.append(y)
        p, t = torch.cat(preds), torch.cat(trues)
        mae = (p - t).abs().mean().item()
        r2 = 1 - ((p - t) ** 2).sum().item() / ((t - t.mean()) ** 2).sum().item()
        return mae, r2


def main():
    cfg = Config()
    torch.manual_seed(cfg.seed)
    load, temp, size = simulate(cfg)
    split = cfg.n_days - cfg.val_days
    x_tr, y_tr = build_rows(load, temp, size, 7, split)
    x_va, y_va = build_rows(load, temp, size, split, cfg.n_days)
    mean, std = x_tr.mean(0), x_tr.std(0) + 1e-6
    train = DataLoader(MeterDataset(x_tr, y_tr, mean, std), batch_size=cfg.batch_size, shuffle=True)
    val = DataLoader(MeterDataset(x_va, y_va, mean, std), batch_size=1024)
    log.info("rows: %d train, %d val", len(y_tr), len(y_va))
    trainer = Trainer(cfg, LoadNet(x_tr.shape[1]))
    trainer.fit(train, val)
    mae, r2 = trainer.evaluate(val)
    print(f"final val_mae={mae:.4f} val_r2={r2:.3f}")


if __name__ == "__main__":
    main()
