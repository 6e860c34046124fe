"""Photometric mass of meteors of one camera station, on top of the encoder of the camera network (kept frozen)."""
import csv
import json
import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn


class Inputs:
    """Names, means and standard deviations of the encoder's inputs."""

    def __init__(self, path):
        spec = json.loads(Path(path).read_text())
        self.names = [s["name"] for s in spec]
        self.mean = np.array([s["mean"] for s in spec])
        self.std = np.array([s["std"] for s in spec])

    def matrix(self, rows):
        raw = np.array([[float(r[c]) for c in self.names] for r in rows])
        return torch.tensor((raw - self.mean) / self.std, dtype=torch.float32)


class MassModel(nn.Module):
    def __init__(self, n_in, checkpoint):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(n_in, 48), nn.SiLU(), nn.Linear(48, 5), nn.Tanh())
        self.encoder.load_state_dict(torch.load(checkpoint, weights_only=True))
        self.encoder.requires_grad_(False)
        self.head = nn.Sequential(nn.Linear(5, 32), nn.SiLU(), nn.Linear(32, 1))

    def forward(self, x):
        return self.head(self.encoder(x)).squeeze(1)


def main(folder):
    torch.manual_seed(3)
    rng = np.random.default_rng(3)
    with open(folder / "station.csv", newline="") as f:
        rows = list(csv.DictReader(f))
    rng.shuffle(rows)
    inputs = Inputs(folder / "encoder_inputs.json")
    x = inputs.matrix(rows)
    y = torch.tensor([float(r["log_mass"]) for r in rows])
    n_val = len(rows) // 3
    xv, yv, x, y = x[:n_val], y[:n_val], x[n_val:], y[n_val:]
    shift, scale = y.mean(), y.std()

    model = MassModel(len(inputs.names), folder / "encoder.pt")
    opt = torch.optim.AdamW(model.head.parameters(), lr=3e-3, weight_decay=1e-3)
    epochs = 60
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, epochs)
    for epoch in range(1, epochs + 1):
        model.train()
        total = 0.0
        for idx in torch.randperm(len(x)).split(32):
            loss = nn.functional.mse_loss(model(x[idx]), (y[idx] - shift) / scale)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(idx)
        sched.step()
        if epoch % 10 == 0:
            model.eval()
            with torch.no_grad():
                mae = (model(xv) * scale + shift - yv).abs().mean().item()
            print(f"epoch {epoch:3d}  train loss {total / len(x):.4f}  val MAE {mae:.4f} (log10 g)")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
