"""Glucose concentration from NIR spectra, small 1D CNN regression."""
import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


def load(path):
    with np.load(path) as z:
        return z["absorbance"].astype(np.float32), z["glucose_mM"].astype(np.float32)


class SpectralNet(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.features = nn.Sequential(nn.Conv1d(1, 8, 7, stride=2, padding=3), nn.GELU(),
                                      nn.Conv1d(8, 16, 5, stride=2, padding=2), nn.GELU(), nn.Flatten())
        self.out = nn.Sequential(nn.Linear(16 * (channels // 4), 32), nn.GELU(), nn.Linear(32, 1))

    def forward(self, x):
        return self.out(self.features(x.unsqueeze(1))).squeeze(1)


def r2(pred, y):
    return 1 - ((pred - y) ** 2).sum().item() / ((y - y.mean()) ** 2).sum().item()


def main():
    folder = Path(sys.argv[1])
    torch.manual_seed(7)
    a_train, c_train = load(folder / "calibration.npz")
    a_val, c_val = load(folder / "validation.npz")
    mu, sd = a_train.mean(0), a_train.std(0)
    c_mu, c_sd = c_train.mean(), c_train.std()
    train = TensorDataset(torch.from_numpy((a_train - mu) / sd), torch.from_numpy((c_train - c_mu) / c_sd))
    xv, yv = torch.from_numpy((a_val - mu) / sd), torch.from_numpy((c_val - c_mu) / c_sd)
    loader = DataLoader(train, batch_size=32, shuffle=True)

    model = SpectralNet(a_train.shape[1])
    opt = torch.optim.Adam(model.parameters(), lr=1e-3, weight_decay=1e-4)
    epochs = 16
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=3e-3, total_steps=epochs * len(loader))
    for epoch in range(1, epochs + 1):
        model.train()
        sse = 0.0
        for x, y in loader:
            loss = nn.functional.mse_loss(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            sched.step()
            sse += loss.item() * len(y)
        model.eval()
        with torch.no_grad():
            pred = model(xv)
        rmse = (pred - yv).pow(2).mean().sqrt().item() * float(c_sd)
        if epoch % 2 == 0:
            print(f"epoch {epoch:2d} train mse {sse / len(train):.4f} val RMSE {rmse:.2f} mM val R2 {r2(pred, yv):.3f}")


if __name__ == "__main__":
    main()
