"""Autoencoder condition monitoring for a centrifugal pump (trained on normal operation)."""
import csv
import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset


def read(path):
    with open(path) as fh:
        reader = csv.reader(fh)
        names = next(reader)
        data = np.array([[float(v) for v in row] for row in reader], dtype=np.float32)
    return names[:-1], data[:, :-1], data[:, -1].astype(int)


class Autoencoder(nn.Module):
    def __init__(self, n, hidden=32, code=4):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(n, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh(), nn.Linear(hidden, code))
        self.decoder = nn.Sequential(nn.Linear(code, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh(), nn.Linear(hidden, n))

    def forward(self, x):
        return self.decoder(self.encoder(x))


class Monitor:
    def __init__(self, epochs=20, lr=3e-3, batch=64):
        self.epochs, self.lr, self.batch = epochs, lr, batch

    def fit(self, x):
        self.mean, self.std = x.mean(0), x.std(0)
        z = torch.from_numpy((x - self.mean) / self.std)
        n_hold = len(z) // 10
        order = torch.randperm(len(z))
        hold, fit = z[order[:n_hold]], z[order[n_hold:]]
        loader = DataLoader(TensorDataset(fit), batch_size=self.batch, shuffle=True, drop_last=True)
        self.net = Autoencoder(z.shape[1])
        opt = optim.Adam(self.net.parameters(), lr=self.lr)
        sched = optim.lr_scheduler.ExponentialLR(opt, 0.88)
        for epoch in range(self.epochs):
            self.net.train()
            total = 0.0
            for (b,) in loader:
                loss = nn.functional.smooth_l1_loss(self.net(b), b)
                opt.zero_grad()
                loss.backward()
                opt.step()
                total += loss.item()
            sched.step()
            with torch.no_grad():
                self.net.eval()
                held = nn.functional.smooth_l1_loss(self.net(hold), hold).item()
            print(f"epoch {epoch:2d} train {total / len(loader):.5f} held-out {held:.5f}")
        err = self.score_tensor(hold)
        self.threshold = float(np.quantile(err, 0.98))
        return self

    def score_tensor(self, z):
        self.net.eval()
        with torch.no_grad():
            return ((self.net(z) - z) ** 2).mean(1).numpy()

    def score(self, x):
        return self.score_tensor(torch.from_numpy((x - self.mean) / self.std))


def auc(s, y):
    r = np.argsort(np.argsort(s)) + 1
    p = y == 1
    return (r[p].sum() - p.sum() * (p.sum() + 1) / 2) / (p.sum() * (~p).sum())


if __name__ == "__main__":
    torch.manual_seed(6)
    root = Path(sys.argv[1])
    names, x_train, _ = read(root / "train.csv")
    _, x_test, y_test = read(root / "test.csv")
    print("channels:", ", ".join(names))
    monitor = Monitor().fit(x_train)
    s = monitor.score(x_test)
    flagged = s > monitor.threshold
    tp = (flagged & (y_test == 1)).sum()
    print(f"threshold {monitor.threshold:.5f} flagged {flagged.mean():.3f} recall {tp / (y_test == 1).sum():.3f}")
    print(f"test AUROC {auc(s, y_test):.4f}")
