"""Weekly demand per pharmacy and product: log-demand regression."""
import json
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


@dataclass
class Settings:
    lr: float = 2e-3
    epochs: int = 22
    batch_size: int = 32
    hidden: int = 64
    weight_decay: float = 1e-4
    seed: int = 7


class Scaler:
    def fit(self, x):
        self.mean, self.std = x.mean(0), x.std(0)
        self.std[self.std == 0] = 1
        return self

    def __call__(self, x):
        return torch.from_numpy((x - self.mean) / self.std)


class DemandModel(nn.Module):
    def __init__(self, n_in, hidden):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(n_in, hidden), nn.SiLU(), nn.Linear(hidden, hidden), nn.SiLU(), nn.Linear(hidden, 1))

    def forward(self, x):
        return self.net(x).squeeze(-1)


class Trainer:
    def __init__(self, folder, cfg):
        self.cfg = cfg
        schema = json.loads((folder / "schema.json").read_text())
        xt, xv = np.load(folder / "x_train.npy"), np.load(folder / "x_val.npy")
        yt, yv = np.load(folder / "y_train.npy"), np.load(folder / "y_val.npy")
        if xt.shape[1] != len(schema["features"]):
            raise SystemExit("schema does not match the table")
        scaler = Scaler().fit(xt)
        self.yt, self.yv = torch.from_numpy(yt).log1p(), torch.from_numpy(yv).log1p()
        self.center = self.yt.mean()
        gen = torch.Generator().manual_seed(cfg.seed)
        self.train_dl = DataLoader(TensorDataset(scaler(xt), self.yt), cfg.batch_size, shuffle=True, generator=gen)
        self.val_dl = DataLoader(TensorDataset(scaler(xv), self.yv), 400)
        self.model = DemandModel(xt.shape[1], cfg.hidden)
        self.opt = torch.optim.AdamW(self.model.parameters(), lr=cfg.lr, weight_decay=cfg.weight_decay)
        self.sched = torch.optim.lr_scheduler.CosineAnnealingLR(self.opt, cfg.epochs)

    def epoch(self):
        self.model.train()
        total = 0.0
        for x, y in self.train_dl:
            loss = nn.functional.smooth_l1_loss(self.model(x), y - self.center, beta=0.3)
            self.opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), 5.0)
            self.opt.step()
            total += loss.item() * len(y)
        self.sched.step()
        return total / len(self.yt)

    @torch.no_grad()
    def validate(self):
        self.model.eval()
        pred = torch.cat([self.model(x) for x, _ in self.val_dl]) + self.center
        return ((pred - self.yv) ** 2).mean().sqrt().item()

    def run(self):
        for e in range(self.cfg.epochs):
            loss = self.epoch()
            if e % 4 == 3:
                print(f"epoch {e + 1:3d} train loss {loss:.5f} val RMSLE {self.validate():.4f}")
        naive = (self.yv - self.center).square().mean().sqrt().item()
        print(f"final val RMSLE {self.validate():.4f} (constant {naive:.4f})")


if __name__ == "__main__":
    cfg = Settings()
    torch.manual_seed(cfg.seed)
    Trainer(Path(sys.argv[1]), cfg).run()
