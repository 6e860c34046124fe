# Wear of lift ropes (loss of diameter in mm) from the counters of the lift controller.
import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn

folder = Path(sys.argv[1])
torch.manual_seed(60)

INPUTS = ["rope_mm", "sheave_mm", "load_kg", "speed_m_s", "floors", "months_in_use", "machine_room_c", "starts"]
POSITIVE = ["sheave_mm", "load_kg", "months_in_use", "starts"]


def features(table):
    cols = []
    for name in INPUTS:
        v = table[name].astype(np.float32)
        cols.append(v)
        if name in POSITIVE:
            cols.append(np.log1p(v))
    return np.stack(cols, axis=1)


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.down(torch.nn.functional.silu(self.up(self.norm(x))))


class WearNet(nn.Module):
    def __init__(self, n_in, width=48, depth=3):
        super().__init__()
        self.inp = nn.Linear(n_in, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))
        self.out = nn.Linear(width, 1)

    def forward(self, x):
        x = self.inp(x)
        for b in self.blocks:
            x = b(x)
        return self.out(x).squeeze(1)


train, val = np.load(folder / "train.npy"), np.load(folder / "val.npy")
xt, xv = features(train), features(val)
mean, std = xt.mean(0), xt.std(0)
xt = torch.from_numpy((xt - mean) / std)
xv = torch.from_numpy((xv - mean) / std)
yt, yv = torch.from_numpy(train["wear_mm"].copy()), torch.from_numpy(val["wear_mm"].copy())
y_mean, y_std = yt.mean(), yt.std()

model = WearNet(xt.shape[1])
opt = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-2)
epochs, batch = 30, 100
sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, epochs)


def val_report():
    model.eval()
    with torch.no_grad():
        pred = model(xv) * y_std + y_mean
    err = pred - yv
    return err.abs().mean().item(), 1 - (err.pow(2).sum() / (yv - yv.mean()).pow(2).sum()).item()


for epoch in range(1, epochs + 1):
    model.train()
    perm = torch.randperm(len(xt))
    losses = []
    for k in range(0, len(perm), batch):
        i = perm[k:k + batch]
        pred = model(xt[i])
        loss = nn.functional.huber_loss(pred, (yt[i] - y_mean) / y_std)
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses.append(loss.item())
    sched.step()
    if epoch % 5 == 0:
        mae, r2 = val_report()
        print(f"epoch {epoch:2d}  train {np.mean(losses):.4f}  val MAE {mae:.3f} mm  R2 {r2:.3f}")

mae, r2 = val_report()
print(f"val MAE {mae:.4f} mm   R2 {r2:.4f}   ropes {len(train)} / {len(val)}")
