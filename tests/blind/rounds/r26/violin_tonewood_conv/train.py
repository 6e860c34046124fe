# Young's modulus of spruce blanks from the tap-tone spectrum and three bench measurements.
import argparse
import csv
import os

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("folder")
parser.add_argument("--epochs", type=int, default=22)
parser.add_argument("--batch-size", type=int, default=32)
parser.add_argument("--lr", type=float, default=2e-3)
args = parser.parse_args()

torch.manual_seed(0)
torch.set_num_threads(1)

BENCH = ["density_kg_m3", "moisture_pct", "length_mm"]

taps = np.load(os.path.join(args.folder, "taps_db.npy"))
with open(os.path.join(args.folder, "blanks.csv")) as f:
    table = list(csv.DictReader(f))
if len(table) != len(taps):
    raise SystemExit(f"{len(table)} blanks but {len(taps)} spectra")

bench = np.array([[float(r[c]) for c in BENCH] for r in table], dtype=np.float32)
modulus = np.array([float(r["modulus_gpa"]) for r in table], dtype=np.float32)
assert np.isfinite(taps).all() and np.isfinite(bench).all() and np.isfinite(modulus).all()

order = np.random.default_rng(3).permutation(len(table))
cut = int(0.8 * len(order))
tr, va = order[:cut], order[cut:]

taps = (taps - taps[tr].mean()) / taps[tr].std()
bench = (bench - bench[tr].mean(0)) / bench[tr].std(0)
y_mean, y_std = float(modulus[tr].mean()), float(modulus[tr].std())
target = (modulus - y_mean) / y_std


def subset(idx):
    return TensorDataset(torch.from_numpy(taps[idx])[:, None], torch.from_numpy(bench[idx]),
                         torch.from_numpy(target[idx]))


train_loader = DataLoader(subset(tr), batch_size=args.batch_size, shuffle=True)
valid_loader = DataLoader(subset(va), batch_size=220)


class TapNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.spectrum = nn.Sequential(
            nn.Conv1d(1, 12, 7, stride=2, padding=3), nn.ReLU(),
            nn.Conv1d(12, 24, 5, stride=2, padding=2), nn.ReLU(),
            nn.Conv1d(24, 24, 3, stride=2, padding=1), nn.ReLU(),
            nn.Flatten(), nn.Linear(24 * 12, 32), nn.ReLU())
        self.head = nn.Sequential(nn.Linear(32 + 3, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, tap, bench):
        return self.head(torch.cat([self.spectrum(tap), bench], 1)).squeeze(1)


net = TapNet()
opt = torch.optim.AdamW(net.parameters(), lr=args.lr, weight_decay=1e-3)
sched = torch.optim.lr_scheduler.OneCycleLR(opt, args.lr * 2, epochs=args.epochs,
                                            steps_per_epoch=len(train_loader))

for epoch in range(args.epochs):
    net.train()
    run = 0.0
    for tap, b, y in train_loader:
        loss = ((net(tap, b) - y) ** 2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        run += loss.item() * len(y)
    net.eval()
    with torch.no_grad():
        err = torch.cat([(net(tap, b) - y).abs() for tap, b, y in valid_loader])
    if epoch % 4 == 0 or epoch == args.epochs - 1:
        print(f"{epoch:3d}  train mse {run / len(tr):.4f}  valid MAE {err.mean().item() * y_std:.3f} GPa")
