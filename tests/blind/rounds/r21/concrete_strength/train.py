"""Pass / fail of concrete batches. The validation file decides which epoch is shipped; the test file is opened once."""
import copy
import sys
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn


@dataclass
class Settings:
    folder: str
    epochs: int = 45
    batch: int = 64
    lr: float = 2e-3
    width: int = 160
    seed: int = 13


def read(folder, name):
    table = np.loadtxt(f"{folder}/{name}.csv", delimiter=",", skiprows=1, dtype=np.float32)
    return torch.from_numpy(table[:, :-1]), torch.from_numpy(table[:, -1])


class PassFail(nn.Module):
    def __init__(self, n_in, width):
        super().__init__()
        self.l1 = nn.Linear(n_in, width)
        self.l2 = nn.Linear(width, width)
        self.l3 = nn.Linear(width, 1)
        self.act = nn.GELU()

    def forward(self, x):
        h = self.act(self.l1(x))
        h = h + self.act(self.l2(h))
        return self.l3(h).squeeze(-1)


class Runner:
    def __init__(self, cfg):
        torch.manual_seed(cfg.seed)
        self.cfg = cfg
        self.data = {k: read(cfg.folder, k) for k in ("train", "valid", "test")}
        x = self.data["train"][0]
        mu, sd = x.mean(0), x.std(0)
        self.data = {k: ((x - mu) / sd, y) for k, (x, y) in self.data.items()}
        self.model = PassFail(x.shape[1], cfg.width)
        self.opt = torch.optim.Adam(self.model.parameters(), lr=cfg.lr)
        self.bce = nn.BCEWithLogitsLoss()

    def train_epoch(self):
        x, y = self.data["train"]
        self.model.train()
        total = 0.0
        for idx in torch.randperm(len(x)).split(self.cfg.batch):
            loss = self.bce(self.model(x[idx]), y[idx])
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            total += loss.item() * len(idx)
        return total / len(x)

    @torch.no_grad()
    def evaluate(self, split):
        self.model.eval()
        x, y = self.data[split]
        out = self.model(x)
        return self.bce(out, y).item(), ((out > 0).float() == y).float().mean().item()

    def run(self):
        best, keep, since = float("inf"), None, 0
        for epoch in range(self.cfg.epochs):
            loss = self.train_epoch()
            v_loss, v_acc = self.evaluate("valid")
            since += 1
            if v_loss < best:
                best, keep, since = v_loss, (epoch, copy.deepcopy(self.model.state_dict())), 0
            if epoch % 5 == 0:
                print(f"epoch {epoch:2d}  train {loss:.4f}  valid loss {v_loss:.4f}  acc {v_acc:.4f}")
            if since >= 15:
                break
        self.model.load_state_dict(keep[1])
        t_loss, t_acc = self.evaluate("test")
        print(f"shipped epoch {keep[0]}: test loss {t_loss:.4f}")
        print(f"test accuracy: {t_acc:.4f}")


if __name__ == "__main__":
    Runner(Settings(folder=sys.argv[1])).run()
