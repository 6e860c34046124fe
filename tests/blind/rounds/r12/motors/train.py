"""Autoencoder on spectra of healthy motors; reconstruction error is the anomaly score."""
import os
import sys

import numpy as np
import torch
import torch.nn as nn


class AutoEncoder(nn.Module):
    def __init__(self, n, code=8, hidden=48):
        super().__init__()
        self.down = nn.Sequential(nn.Linear(n, hidden), nn.ELU(), nn.Linear(hidden, code))
        self.up = nn.Sequential(nn.Linear(code, hidden), nn.ELU(), nn.Linear(hidden, n))

    def forward(self, x):
        return self.up(self.down(x))

    def score(self, x):
        return (self(x) - x).pow(2).mean(1)


class Bench:
    def __init__(self, folder):
        z = np.load(os.path.join(folder, "spectra.npz"))
        where = {n: i for i, n in enumerate(z["names"].tolist())}
        x = z["x"].astype(np.float32)
        with open(os.path.join(folder, "train_normal.txt")) as f:
            train = x[[where[line.strip()] for line in f]]
        with open(os.path.join(folder, "test.txt")) as f:
            pairs = [line.split() for line in f]
        test = x[[where[n] for n, _ in pairs]]
        mu, sd = train.mean(0), train.std(0)
        self.train = torch.from_numpy((train - mu) / sd)
        self.test = torch.from_numpy((test - mu) / sd)
        self.truth = np.array([int(k) for _, k in pairs])


def roc_auc(score, truth):
    pos, neg = score[truth == 1], score[truth == 0]
    return float((pos[:, None] > neg[None]).mean() + 0.5 * (pos[:, None] == neg[None]).mean())


def train(model, x, epochs, lr, batch=32):
    opt = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=1e-4)
    n_val = len(x) // 10
    val, x = x[:n_val], x[n_val:]
    best = (float("inf"), None)
    for epoch in range(epochs):
        model.train()
        total = 0.0
        for idx in torch.randperm(len(x)).split(batch):
            clean = x[idx]
            noisy = clean + 0.1 * torch.randn_like(clean)
            loss = nn.functional.mse_loss(model(noisy), clean)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(idx)
        model.eval()
        with torch.no_grad():
            v = model.score(val).mean().item()
        if v < best[0]:
            best = (v, {k: p.clone() for k, p in model.state_dict().items()})
        if epoch % 5 == 4:
            print(f"epoch {epoch + 1} train {total / len(x):.4f} val {v:.4f}")
    model.load_state_dict(best[1])


def main(folder):
    torch.manual_seed(14)
    bench = Bench(folder)
    print(len(bench.train), "recordings to learn from")
    model = AutoEncoder(bench.train.shape[1])
    train(model, bench.train[torch.randperm(len(bench.train))], epochs=30, lr=2e-3)
    model.eval()
    with torch.no_grad():
        s = model.score(bench.test).numpy()
    print(f"test auc {roc_auc(s, bench.truth):.4f}")


if __name__ == "__main__":
    main(sys.argv[1])
