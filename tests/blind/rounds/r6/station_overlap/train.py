"""Fog warning for an airport from evening soundings (16 standardised predictors)."""
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import nn


@dataclass
class FogConfig:
    folder: Path
    hidden: int = 64
    lr: float = 3e-3
    weight_decay: float = 1e-2
    batch_size: int = 32
    epochs: int = 20
    patience: int = 3
    seed: int = 3


def load(path):
    with np.load(path) as z:
        return torch.from_numpy(z["x"]), torch.from_numpy(z["fog"])


class FogNet(nn.Module):
    def __init__(self, n_in, hidden):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(n_in, hidden), nn.ReLU(),
                                 nn.Linear(hidden, hidden), nn.ReLU(),
                                 nn.Linear(hidden, 2))

    def forward(self, x):
        return self.net(x)


def heidke_skill(pred, y):
    a = ((pred == 1) & (y == 1)).sum().item()
    b = ((pred == 1) & (y == 0)).sum().item()
    c = ((pred == 0) & (y == 1)).sum().item()
    d = ((pred == 0) & (y == 0)).sum().item()
    return 2 * (a * d - b * c) / max(1, (a + c) * (c + d) + (a + b) * (b + d))


class Trainer:
    def __init__(self, cfg):
        self.cfg = cfg
        torch.manual_seed(cfg.seed)
        self.train = load(cfg.folder / "archive.npz")
        self.valid = load(cfg.folder / "winter_valid.npz")
        self.model = FogNet(self.train[0].shape[1], cfg.hidden)
        self.opt = torch.optim.AdamW(self.model.parameters(), lr=cfg.lr, weight_decay=cfg.weight_decay)

    def train_epoch(self):
        self.model.train()
        x, y = self.train
        total = 0.0
        for idx in torch.randperm(len(x)).split(self.cfg.batch_size):
            loss = nn.functional.cross_entropy(self.model(x[idx]), y[idx])
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            total += loss.item() * len(idx)
        return total / len(x)

    @torch.no_grad()
    def evaluate(self, data):
        self.model.eval()
        x, y = data
        out = self.model(x)
        pred = out.argmax(1)
        return (nn.functional.cross_entropy(out, y).item(), (pred == y).float().mean().item(),
                heidke_skill(pred, y))

    def fit(self):
        print(f"{len(self.train[0])} archive nights, {len(self.valid[0])} validation nights")
        best, best_epoch, best_state = float("inf"), 0, None
        for epoch in range(1, self.cfg.epochs + 1):
            loss = self.train_epoch()
            v_loss, v_acc, v_hss = self.evaluate(self.valid)
            if v_loss < best:
                best, best_epoch = v_loss, epoch
                best_state = {k: v.clone() for k, v in self.model.state_dict().items()}
            print(f"epoch {epoch:2d} loss {loss:.4f} | valid loss {v_loss:.4f} acc {v_acc:.3f} HSS {v_hss:.3f}")
            if epoch - best_epoch >= self.cfg.patience:
                break
        self.model.load_state_dict(best_state)
        v_loss, v_acc, v_hss = self.evaluate(self.valid)
        print(f"selected model: valid loss {v_loss:.4f} acc {v_acc:.3f} HSS {v_hss:.3f}")
        n_loss, n_acc, n_hss = self.evaluate(load(self.cfg.folder / "winter_next.npz"))
        print(f"following winter: loss {n_loss:.4f} acc {n_acc:.3f} HSS {n_hss:.3f}")


if __name__ == "__main__":
    Trainer(FogConfig(Path(sys.argv[1]))).fit()
