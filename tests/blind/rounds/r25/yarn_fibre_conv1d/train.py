"""Wool share of a yarn from its near infrared spectrum. Usage: python train.py DIR"""
import argparse
import csv
import json
import os
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class Settings:
    seed: int
    epochs: int
    batch: int
    lr: float
    channels: int
    val_share: float


def read_swatches(folder):
    spectra = np.load(os.path.join(folder, "nir_absorbance.npy"))
    with open(os.path.join(folder, "nir_swatches.txt")) as f:
        names = [line.strip() for line in f if line.strip()]
    if len(names) != len(spectra):
        raise SystemExit("list and array differ in length")
    if len(set(names)) != len(names):
        raise SystemExit("a swatch is listed twice")
    row_of = {name: i for i, name in enumerate(names)}

    x, twist, wool = [], [], []
    with open(os.path.join(folder, "lab_results.csv"), newline="") as f:
        for rec in csv.DictReader(f):
            if rec["swatch"] not in row_of:
                raise SystemExit(f"no spectrum for {rec['swatch']}")
            x.append(spectra[row_of[rec["swatch"]]])
            twist.append(float(rec["twist_per_m"]))
            wool.append(float(rec["wool_pct"]))
    x = np.stack(x)
    # standard normal variate, spectrum by spectrum
    x = (x - x.mean(1, keepdims=True)) / x.std(1, keepdims=True)
    return (torch.from_numpy(x), torch.tensor(twist), torch.tensor(wool))


class SpectrumNet(nn.Module):
    def __init__(self, length, ch):
        super().__init__()
        self.c1 = nn.Conv1d(1, ch, 7, stride=2, padding=3)
        self.c2 = nn.Conv1d(ch, ch, 5, stride=2, padding=2)
        self.c3 = nn.Conv1d(ch, 8, 1)
        flat = 8 * ((length + 3) // 4)
        self.out = nn.Sequential(nn.Linear(flat + 1, 48), nn.GELU(), nn.Linear(48, 1))

    def forward(self, spectrum, twist):
        z = F.gelu(self.c1(spectrum.unsqueeze(1)))
        z = F.gelu(self.c2(z))
        z = F.gelu(self.c3(z)).flatten(1)
        return self.out(torch.cat([z, twist.unsqueeze(1)], dim=1)).squeeze(1)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("folder")
    folder = ap.parse_args().folder
    with open(os.path.join(folder, "settings.json")) as f:
        cfg = Settings(**json.load(f))
    torch.manual_seed(cfg.seed)

    x, twist, wool = read_swatches(folder)
    order = torch.randperm(len(wool))
    n_val = int(cfg.val_share * len(wool))
    va, tr = order[:n_val], order[n_val:]
    t_mean, t_std = twist[tr].mean(), twist[tr].std()
    y_mean, y_std = wool[tr].mean(), wool[tr].std()
    twist = (twist - t_mean) / t_std

    net = SpectrumNet(x.shape[1], cfg.channels)
    opt = torch.optim.Adam(net.parameters(), lr=cfg.lr, weight_decay=1e-5)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, cfg.epochs)

    for epoch in range(1, cfg.epochs + 1):
        net.train()
        shuffled = tr[torch.randperm(len(tr))]
        running = 0.0
        for pick in shuffled.split(cfg.batch):
            target = (wool[pick] - y_mean) / y_std
            loss = F.smooth_l1_loss(net(x[pick], twist[pick]), target)
            opt.zero_grad()
            loss.backward()
            opt.step()
            running += loss.item() * len(pick)
        sched.step()

        net.eval()
        with torch.no_grad():
            pred = net(x[va], twist[va]) * y_std + y_mean
        mae = (pred - wool[va]).abs().mean().item()
        if epoch % 5 == 0 or epoch == 1:
            print(f"{epoch:3d}  train {running / len(tr):.4f}  val MAE {mae:.2f} % wool")
    rest = ((pred - wool[va]) ** 2).sum() / ((wool[va] - wool[va].mean()) ** 2).sum()
    print(f"val MAE {mae:.2f} % wool, R2 {1 - rest.item():.3f}")


if __name__ == "__main__":
    main()
