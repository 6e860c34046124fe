"""Predict the gloss of a chocolate lot (gloss units at 20 degrees) from its tempering curve."""
import argparse
import copy
import csv
from pathlib import Path

import numpy as np
import torch
from torch import nn


def load(path):
    with open(path, newline="") as fh:
        reader = csv.reader(fh)
        head = next(reader)
        table = np.array([[float(v) for v in row] for row in reader], dtype=np.float32)
    curve = [i for i, c in enumerate(head) if c.startswith("t") and c.endswith("_c")]
    scalar = [head.index(c) for c in ("viscosity_pas", "cocoa_butter_pct", "mould_temp_c")]
    return table[:, curve], table[:, scalar], table[:, head.index("gloss_gu")]


class TemperNet(nn.Module):
    def __init__(self, channels=32, points=48, scalars=3):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv1d(1, channels, 5, padding=2), nn.GELU(), nn.AvgPool1d(2),
            nn.Conv1d(channels, channels, 5, padding=2), nn.GELU(), nn.AvgPool1d(2))
        self.head = nn.Sequential(
            nn.Linear(channels * points // 4 + scalars, 128), nn.GELU(), nn.Linear(128, 1))

    def forward(self, curve, scalar):
        z = self.conv(curve[:, None]).flatten(1)
        return self.head(torch.cat([z, scalar], dim=1))[:, 0]


class Scaler:
    def __init__(self, x, axis=0):
        self.mean, self.std = x.mean(axis), x.std(axis)

    def __call__(self, x):
        return torch.from_numpy((x - self.mean) / self.std)

    def back(self, x):
        return x * float(self.std) + float(self.mean)


class Trainer:
    def __init__(self, model, lr, batch, patience):
        self.model, self.batch, self.patience = model, batch, patience
        self.opt = torch.optim.Adam(model.parameters(), lr=lr)

    def epoch(self, curve, scalar, y):
        self.model.train()
        total = 0.0
        for idx in torch.randperm(len(y)).split(self.batch):
            loss = (self.model(curve[idx], scalar[idx]) - y[idx]).pow(2).mean()
            self.opt.zero_grad(set_to_none=True)
            loss.backward()
            self.opt.step()
            total += loss.item() * len(idx)
        return total / len(y)

    @torch.no_grad()
    def predict(self, curve, scalar):
        self.model.eval()
        return self.model(curve, scalar)

    def fit(self, train, val, epochs, mae):
        best, state, since = float("inf"), None, 0
        for e in range(epochs):
            tr = self.epoch(*train)
            err = mae(self.predict(*val[:2]), val[2])
            if err < best:
                best, state, since = err, copy.deepcopy(self.model.state_dict()), 0
            else:
                since += 1
            if e % 10 == 0:
                print(f"epoch {e:3d}  train mse {tr:.3f}  val MAE {err:.2f} GU  best {best:.2f}")
            if since >= self.patience:
                print(f"stopped at epoch {e}")
                break
        self.model.load_state_dict(state)
        return best


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("data", type=Path)
    ap.add_argument("--epochs", type=int, default=150)
    ap.add_argument("--seed", type=int, default=1)
    args = ap.parse_args()
    torch.manual_seed(args.seed)
    ct, st, yt = load(args.data / "train.csv")
    cv, sv, yv = load(args.data / "val.csv")
    fc, fs, fy = Scaler(ct), Scaler(st), Scaler(yt)
    train = fc(ct), fs(st), fy(yt)
    val = fc(cv), fs(sv), torch.from_numpy(yv)

    def mae(pred, target):
        return (fy.back(pred) - target).abs().mean().item()

    trainer = Trainer(TemperNet(), lr=7e-4, batch=32, patience=25)
    best = trainer.fit(train, val, args.epochs, mae)
    print(f"lots {len(yt)} / {len(yv)}   gloss spread {yt.std():.2f} GU   best val MAE {best:.3f} GU")
    return trainer, (fc, fs, fy)


if __name__ == "__main__":
    main()
