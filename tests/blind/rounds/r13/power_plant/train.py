"""Predict plant output of the next hour from a window of sensor readings (GRU)."""
import argparse
from pathlib import Path
import numpy as np
import torch
from torch import nn

WINDOW = 12


def load_csv(path):
    return np.loadtxt(path, delimiter=",", skiprows=1)[:, 1:].astype(np.float32)


def windows(a):
    x = np.lib.stride_tricks.sliding_window_view(a[:-1], WINDOW, axis=0).transpose(0, 2, 1)
    return torch.from_numpy(x.copy()), torch.from_numpy(a[WINDOW:, -1].copy())


class Forecaster(nn.Module):
    def __init__(self, f, hidden=24):
        super().__init__()
        self.rnn = nn.GRU(f, hidden, batch_first=True)
        self.out = nn.Linear(hidden, 1)

    def forward(self, x):
        h, _ = self.rnn(x)
        return self.out(h[:, -1]).squeeze(1)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("folder", type=Path)
    ap.add_argument("--epochs", type=int, default=8)
    a = ap.parse_args()
    torch.manual_seed(0)
    raw = load_csv(a.folder / "historian.csv")
    mu, sd = raw.mean(0), raw.std(0)
    x, y = windows((raw - mu) / sd)
    cut = int(0.85 * len(x))
    model = Forecaster(raw.shape[1])
    opt = torch.optim.Adam(model.parameters(), lr=5e-3)
    for ep in range(a.epochs):
        model.train()
        losses = []
        for idx in torch.randperm(cut).split(64):
            loss = nn.functional.mse_loss(model(x[idx]), y[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            losses.append(loss.item())
        model.eval()
        with torch.no_grad():
            v = nn.functional.mse_loss(model(x[cut:]), y[cut:]).item()
        print(f"epoch {ep} train {np.mean(losses):.4f} val {v:.4f}")
    xt, yt = windows((load_csv(a.folder / "recent.csv") - mu) / sd)
    with torch.no_grad():
        mae = (model(xt) - yt).abs().mean().item() * sd[-1]
    print("final recent MAE in MW", float(mae))


if __name__ == "__main__":
    main()
