"""Escape or not: kinematics of single swim bouts of zebrafish larvae, after a tap on the dish."""
import numpy as np
import torch
from torch import nn


def bouts(n, rng):
    """24 tail and body measures per bout; about a tenth of the labels by eye is doubtful."""
    size = rng.normal(4.1, 0.25, n)
    latency = rng.gamma(3, 4, n)
    bend = rng.normal(60, 25, n)
    beat = rng.normal(38, 9, n)
    yaw = rng.normal(0, 40, n)
    speed = 10 + 0.25 * bend + 0.4 * beat + rng.normal(0, 6, n)
    tail = rng.normal(0, 1, (n, 18)) + 0.3 * (bend[:, None] - 60) / 25
    x = np.column_stack([size, latency, bend, beat, yaw, speed, tail])
    drive = 0.05 * (bend - 60) - 0.12 * (latency - 12) + 0.06 * (beat - 38) + 0.015 * (np.abs(yaw) - 32) + 0.5 * tail[:, 0]
    y = (drive + rng.logistic(0, 0.6, n) > 0).astype(np.float32)
    doubtful = rng.random(n) < 0.10
    y[doubtful] = 1 - y[doubtful]
    return x.astype(np.float32), y


class BoutNet(nn.Module):
    def __init__(self, n_in, width=96):
        super().__init__()
        self.a = nn.Linear(n_in, width)
        self.b = nn.Linear(width, width)
        self.c = nn.Linear(width, 1)

    def forward(self, x):
        h = torch.tanh(self.a(x))
        h = torch.relu(self.b(h))
        return self.c(h).squeeze(-1)


class Fitter:
    def __init__(self, net, lr=1e-3, max_epochs=120, patience=60, batch=32):
        self.net = net
        self.opt = torch.optim.Adam(net.parameters(), lr=lr)
        self.max_epochs, self.patience, self.batch = max_epochs, patience, batch
        self.loss = nn.BCEWithLogitsLoss()
        self.best_loss, self.best_epoch, self.best = float("inf"), 0, None

    def snapshot(self):
        return {name: w.numpy() for name, w in self.net.state_dict().items()}

    def restore(self):
        state = {name: torch.from_numpy(w) for name, w in self.best.items()}
        self.net.load_state_dict(state)

    def one_epoch(self, x, y):
        self.net.train()
        for idx in torch.randperm(len(y)).split(self.batch):
            self.opt.zero_grad()
            self.loss(self.net(x[idx]), y[idx]).backward()
            self.opt.step()

    @torch.no_grad()
    def score(self, x, y):
        self.net.eval()
        out = self.net(x)
        return self.loss(out, y).item(), ((out > 0).float() == y).float().mean().item()

    def fit(self, train, val):
        for epoch in range(1, self.max_epochs + 1):
            self.one_epoch(*train)
            val_loss, val_acc = self.score(*val)
            if val_loss < self.best_loss:
                self.best_loss, self.best_epoch, self.best = val_loss, epoch, self.snapshot()
            if epoch % 20 == 0:
                train_loss, _ = self.score(*train)
                print(f"epoch {epoch:3d}  train {train_loss:.4f}  val {val_loss:.4f}  acc {val_acc:.3f}")
            if epoch - self.best_epoch >= self.patience:
                print(f"no better for {self.patience} epochs")
                break
        self.restore()
        print(f"best epoch {self.best_epoch}, val loss {self.best_loss:.4f}")


def main():
    torch.manual_seed(8)
    rng = np.random.default_rng(8)
    x, y = bouts(2600, rng)
    parts = np.split(rng.permutation(len(y)), [500, 900])
    mean, std = x[parts[0]].mean(0), x[parts[0]].std(0)
    x = (x - mean) / std
    train, val, test = ((torch.from_numpy(x[p]), torch.from_numpy(y[p])) for p in parts)
    print(f"{len(train[1])} bouts for training, {len(val[1])} for validation, {len(test[1])} for the test")

    fitter = Fitter(BoutNet(x.shape[1]))
    fitter.fit(train, val)

    loss, acc = fitter.score(*test)
    print(f"test: log loss {loss:.4f}, accuracy {acc:.4f}")


if __name__ == "__main__":
    main()
