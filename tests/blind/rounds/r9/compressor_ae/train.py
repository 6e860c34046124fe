"""Autoencoder on compressor telemetry: learn normal operation, raise an alarm on large residuals."""
import os
import sys

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

LATENT, EPOCHS, SEED = 3, 25, 14


def read_telemetry(path):
    table = np.loadtxt(path, delimiter=",", skiprows=1, dtype=np.float32)
    return torch.from_numpy(table[:, :-1]), torch.from_numpy(table[:, -1]) > 0.5


class TelemetryAE(nn.Module):
    def __init__(self, n_sensors, latent):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(n_sensors, 32), nn.Tanh(), nn.Linear(32, latent))
        self.decoder = nn.Sequential(nn.Linear(latent, 32), nn.Tanh(), nn.Linear(32, n_sensors))

    def forward(self, x):
        return self.decoder(self.encoder(x))


@torch.no_grad()
def residual(model, x):
    model.eval()
    return (model(x) - x).pow(2).mean(1)


def auc(score, label):
    return (score[label][:, None] > score[~label][None, :]).float().mean().item()


def main(folder):
    torch.manual_seed(SEED)
    normal, _ = read_telemetry(os.path.join(folder, "normal.csv"))
    test, fault = read_telemetry(os.path.join(folder, "test.csv"))
    order = torch.randperm(len(normal))
    fit, calib = normal[order[:1800]], normal[order[1800:]]
    mean, std = fit.mean(0), fit.std(0)
    fit, calib, test = (fit - mean) / std, (calib - mean) / std, (test - mean) / std

    loader = DataLoader(TensorDataset(fit), batch_size=64, shuffle=True)
    model = TelemetryAE(fit.shape[1], LATENT)
    opt = torch.optim.Adam(model.parameters(), lr=5e-3)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, EPOCHS)
    for epoch in range(EPOCHS):
        model.train()
        total = 0.0
        for (xb,) in loader:
            loss = (model(xb) - xb).pow(2).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(xb)
        sched.step()
        if epoch % 4 == 0 or epoch == EPOCHS - 1:
            print(f"epoch {epoch:2d} train mse {total / len(fit):.4f} calibration mse {residual(model, calib).mean():.4f}")

    limit = residual(model, calib).quantile(0.97)
    score = residual(model, test)
    alarm = score > limit
    print(f"limit {limit:.4f}  test residual median {score.median():.4f}")
    print(f"test: detected {alarm[fault].float().mean():.3f} false alarms {alarm[~fault].float().mean():.3f} auc {auc(score, fault):.3f}")


if __name__ == "__main__":
    main(sys.argv[1])
