"""Default prediction for consumer loans."""
import json
import sys

import numpy as np
import torch
from torch import nn


class LoanBook:
    NUMERIC = ["income", "debt_ratio", "utilisation", "age", "months_on_book", "inquiries", "late_30", "late_60"]

    def __init__(self, n, seed):
        rng = np.random.default_rng(seed)
        income = rng.lognormal(10.4, 0.5, n)
        debt = rng.beta(2, 4, n)
        util = rng.beta(2, 2, n)
        age = rng.uniform(20, 75, n)
        mob = rng.exponential(40, n)
        inq = rng.poisson(1.5, n)
        l30 = rng.poisson(0.6, n)
        l60 = rng.poisson(0.25, n)
        bureau = rng.normal(0, 1, (n, 30))
        z = (-1.2 - 0.9 * (np.log(income) - 10.4) + 2.2 * (debt - 0.33) + 2.0 * (util - 0.5) - 0.02 * (age - 45)
             - 0.01 * (mob - 40) + 0.25 * (inq - 1.5) + 0.6 * l30 + 0.9 * l60 + 0.5 * bureau[:, 0] - 0.5 * bureau[:, 1])
        self.y = (rng.random(n) < 1 / (1 + np.exp(-z))).astype(np.float32)
        self.x = np.column_stack([np.log(income), debt, util, age, np.log1p(mob), inq, l30, l60, bureau]).astype(np.float32)


def auc(score, y):
    order = np.argsort(score, kind="mergesort")
    ranks = np.empty(len(score))
    ranks[order] = np.arange(1, len(score) + 1)
    pos = y == 1
    return (ranks[pos].sum() - pos.sum() * (pos.sum() + 1) / 2) / (pos.sum() * (~pos).sum())


class Scorecard(nn.Module):
    def __init__(self, d, hidden=256):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(d, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1))

    def forward(self, x):
        return self.net(x)[:, 0]


class Pipeline:
    def __init__(self, lr=3e-4, epochs=60, batch_size=32, seed=8):
        self.lr, self.epochs, self.batch_size, self.seed = lr, epochs, batch_size, seed

    def prepare(self):
        book = LoanBook(5200, self.seed)
        perm = np.random.default_rng(self.seed).permutation(len(book.y))
        parts = {"train": perm[:1200], "valid": perm[1200:2700], "test": perm[2700:]}
        mu, sd = book.x[parts["train"]].mean(0), book.x[parts["train"]].std(0)
        x = (book.x - mu) / sd
        self.data = {k: (torch.from_numpy(x[i]), torch.from_numpy(book.y[i])) for k, i in parts.items()}

    def score(self, part):
        self.model.eval()
        x, y = self.data[part]
        with torch.no_grad():
            return auc(self.model(x).numpy(), y.numpy())

    def fit(self):
        torch.manual_seed(self.seed)
        x, y = self.data["train"]
        self.model = Scorecard(x.shape[1])
        opt = torch.optim.Adam(self.model.parameters(), lr=self.lr)
        loss_fn = nn.BCEWithLogitsLoss()
        best_auc, best_state, best_epoch = 0.0, None, -1
        for epoch in range(self.epochs):
            self.model.train()
            perm = torch.randperm(len(y))
            total = 0.0
            for b in perm.split(self.batch_size):
                opt.zero_grad()
                loss = loss_fn(self.model(x[b]), y[b])
                loss.backward()
                opt.step()
                total += loss.item() * len(b)
            valid_auc = self.score("valid")
            if valid_auc > best_auc:
                best_auc, best_epoch = valid_auc, epoch
                best_state = self.model.state_dict()
            if epoch % 5 == 0:
                print(f"epoch {epoch:3d} loss {total / len(y):.4f} valid auc {valid_auc:.4f}", file=sys.stderr)
        self.model.load_state_dict(best_state)
        return best_epoch, best_auc


if __name__ == "__main__":
    pipe = Pipeline()
    pipe.prepare()
    epoch, valid_auc = pipe.fit()
    print(json.dumps({"selected_epoch": epoch, "valid_auc": round(float(valid_auc), 4),
                      "test_auc": round(float(pipe.score("test")), 4)}))
