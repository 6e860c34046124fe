"""Bearing condition classifier on vibration windows (normal / inner race / imbalance)."""
import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

SEED = 11
N_MACHINES = 160
WINDOW, HOP = 128, 32
EPOCHS, BATCH, LR = 8, 64, 1.5e-3

rng = np.random.default_rng(SEED)
torch.manual_seed(SEED)


def record_machine(condition, n=512):
    """One accelerometer recording; every machine has its own resonances and mounting."""
    t = np.arange(n)
    sig = np.zeros(n)
    for _ in range(3):
        f = rng.uniform(0.02, 0.45)
        sig += rng.uniform(0.6, 1.3) * np.sin(2 * np.pi * f * t + rng.uniform(0, 6.28))
    if condition == 1:
        period = int(rng.integers(14, 22))
        impulses = (t % period == 0).astype(float) * rng.uniform(0.9, 2.4)
        ring = np.exp(-np.arange(12) / 3.0) * np.cos(np.arange(12) * 2.2)
        sig += np.convolve(impulses, ring)[:n]
    elif condition == 2:
        sig += rng.uniform(0.6, 1.6) * np.sin(2 * np.pi * rng.uniform(0.008, 0.014) * t)
    return (sig + 0.5 * rng.standard_normal(n)).astype(np.float32)


def cut_windows(sig):
    return np.stack([sig[i:i + WINDOW] for i in range(0, len(sig) - WINDOW + 1, HOP)])


def build_dataset():
    xs, ys, ids = [], [], []
    for m in range(N_MACHINES):
        cond = m % 3
        w = cut_windows(record_machine(cond))
        xs.append(w)
        ys.append(np.full(len(w), cond))
        ids.append(np.full(len(w), m))
    return np.concatenate(xs), np.concatenate(ys), np.concatenate(ids)


class VibrationNet(nn.Module):
    def __init__(self, n_classes=3):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv1d(1, 16, 15, stride=2, padding=7), nn.BatchNorm1d(16), nn.ReLU(),
            nn.Conv1d(16, 32, 9, stride=2, padding=4), nn.BatchNorm1d(32), nn.ReLU(),
            nn.Conv1d(32, 32, 5, padding=2), nn.BatchNorm1d(32), nn.ReLU(),
        )
        self.head = nn.Linear(64, n_classes)

    def forward(self, x):
        h = self.features(x)
        return self.head(torch.cat([h.mean(-1), h.amax(-1)], dim=1))


def evaluate(model, loader):
    model.eval()
    hits = total = 0
    with torch.no_grad():
        for xb, yb in loader:
            hits += (model(xb).argmax(1) == yb).sum().item()
            total += len(yb)
    return hits / total


def main():
    X, y, machine = build_dataset()
    machines = rng.permutation(N_MACHINES)
    val_mask = np.isin(machine, machines[:N_MACHINES // 4])
    X = torch.from_numpy(X).unsqueeze(1)
    y = torch.from_numpy(y).long()
    tr, va = torch.from_numpy(~val_mask), torch.from_numpy(val_mask)
    mu, sd = X[tr].mean(), X[tr].std()
    X = (X - mu) / sd
    train_loader = DataLoader(TensorDataset(X[tr], y[tr]), batch_size=BATCH, shuffle=True)
    val_loader = DataLoader(TensorDataset(X[va], y[va]), batch_size=256)
    print(f"{int(tr.sum())} training windows, {int(va.sum())} validation windows")

    model = VibrationNet()
    opt = torch.optim.AdamW(model.parameters(), lr=LR, weight_decay=1e-2)
    loss_fn = nn.CrossEntropyLoss()
    for epoch in range(EPOCHS):
        model.train()
        running = 0.0
        for xb, yb in train_loader:
            opt.zero_grad()
            loss = loss_fn(model(xb), yb)
            loss.backward()
            opt.step()
            running += loss.item() * len(yb)
        print(f"epoch {epoch:2d}  loss {running / int(tr.sum()):.4f}  val_acc {evaluate(model, val_loader):.3f}")
    print(f"expected accuracy on a machine not seen before: {evaluate(model, val_loader):.3f}")


if __name__ == "__main__":
    main()
