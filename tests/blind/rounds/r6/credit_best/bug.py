"""Default-probability model; the state with the best validation loss is scored on the test book."""
import copy
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn


@dataclass
class Config:
    n_train: int = 900
    n_valid: int = 900
    n_test: int = 3000
    noise_cols: int = 25
    hidden: int = 96
    lr: float = 2e-3
    batch_size: int = 64
    epochs: int = 25
    patience: int = 8
    seed: int = 13


def loan_book(n, cfg, rng):
    income = rng.lognormal(10.3, 0.5, n)
    amount = rng.lognormal(9.2, 0.6, n)
    util = rng.beta(2, 3, n)
    inquiries = rng.poisson(1.2, n)
    tenure = rng.gamma(2, 3, n)
    other = rng.normal(0, 1, (n, cfg.noise_cols))
    logit = (-1.1 + 1.3 * np.log(amount / income) + 2.8 * (util - 0.4) + 0.45 * (inquiries - 1)
             - 0.12 * (tenure - 6) + 1.0)
    default = rng.random(n) < 1 / (1 + np.exp(-logit))
    x = np.column_stack([np.log(income), np.log(amount), util, inquiries, tenure, other])
    return x.astype(np.float32), default.astype(np.float32)


def auc(score, y):
    order = torch.argsort(score)
    ranks = torch.empty(len(score))
    ranks[order] = torch.arange(1, len(score) + 1, dtype=torch.float32)
    pos = y.sum()
    return ((ranks[y == 1].sum() - pos * (pos + 1) / 2) / (pos * (len(y) - pos))).item()


class Scorecard(nn.Module):
    def __init__(self, n_in, hidden):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(n_in, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(),
                                 nn.Linear(hidden, 1))

    def forward(self, x):
        return self.net(x).squeeze(1)


class Trainer:
    def __init__(self, cfg):
        self.cfg = cfg
        torch.manual_seed(cfg.seed)
        rng = np.random.default_rng(cfg.seed)
        books = [loan_book(n, cfg, rng) for n in (cfg.n_train, cfg.n_valid, cfg.n_test)]
        mu, sd = books[0][0].mean(0), books[0][0].std(0)
        self.train_set, self.valid_set, self.test_set = [
            (torch.from_numpy((x - mu) / sd), torch.from_numpy(y)) for x, y in books]
        self.model = Scorecard(len(mu), cfg.hidden)
        self.opt = torch.optim.Adam(self.model.parameters(), lr=cfg.lr)
        self.criterion = nn.BCEWithLogitsLoss()

    @torch.no_grad()
    def score(self, data):
        self.model.eval()
        out = self.model(data[0])
        return self.criterion(out, data[1]).item(), auc(out, data[1])

    def train_epoch(self):
        self.model.train()
        x, y = self.train_set
        for idx in torch.randperm(len(x)).split(self.cfg.batch_size):
            loss = self.criterion(self.model(x[idx]), y[idx])
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()

    def fit(self):
        best_loss, best_state, best_epoch = float("inf"), None, 0
        for epoch in range(1, self.cfg.epochs + 1):
            self.train_epoch()
            val_loss, val_auc = self.score(self.valid_set)
            print(f"epoch {epoch:2d} val loss {val_loss:.4f} val AUC {val_auc:.3f}")
            if val_loss < best_loss:
                best_loss, best_epoch = val_loss, epoch
                best_state = copy.copy(self.model.state_dict())
            elif epoch - best_epoch >= self.cfg.patience:
                print("early stop")
                break
        self.model.load_state_dict(best_state)
        test_loss, test_auc = self.score(self.test_set)
        print(f"restored epoch {best_epoch} (val loss {best_loss:.4f}): "
              f"test loss {test_loss:.4f} test AUC {test_auc:.3f}")


if __name__ == "__main__":
    Trainer(Config()).fit()
