"""Peak particle velocity (mm/s) at a neighbour's house from the blast plan. usage: train.py DIR"""
import glob
import os
import sys
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn as nn

torch.set_num_threads(1)


@dataclass
class Options:
    width: int = 64
    epochs: int = 25
    batch: int = 64
    lr: float = 3e-3
    weight_decay: float = 1e-4
    seed: int = 11


def read_shards(folder):
    xs, ys = [], []
    for path in sorted(glob.glob(os.path.join(folder, "shards", "part-*.npz"))):
        with np.load(path) as z:
            xs.append(z["x"])
            ys.append(z["ppv"])
    return np.concatenate(xs), np.concatenate(ys)


def features(x, names):
    col = {n: x[:, i] for i, n in enumerate(names)}
    az = np.deg2rad(col["azimuth_deg"])
    return np.stack([
        np.log(col["charge_kg"]), np.log(col["distance_m"]), np.sin(az), np.cos(az),
        col["depth_m"], col["delay_ms"], col["water_table_m"],
    ], axis=1).astype(np.float32)


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.inner = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width))

    def forward(self, h):
        return h + self.inner(h)


def build(inputs, width):
    return nn.Sequential(nn.Linear(inputs, width), Residual(width), Residual(width), nn.LayerNorm(width), nn.Linear(width, 1))


def main(folder, o=Options()):
    torch.manual_seed(o.seed)
    names = open(os.path.join(folder, "columns.txt")).read().split()
    x, ppv = read_shards(folder)
    with np.load(os.path.join(folder, "newest.npz")) as z:
        xv, ppv_v = z["x"], z["ppv"]
    f, fv = features(x, names), features(xv, names)
    t, tv = np.log(ppv), np.log(ppv_v)
    fm, fs, tm, ts = f.mean(0), f.std(0), t.mean(), t.std()
    f, fv = torch.from_numpy((f - fm) / fs), torch.from_numpy((fv - fm) / fs)
    t, tv = torch.from_numpy((t - tm) / ts), torch.from_numpy(tv)
    print(f"{len(f)} blasts for training, {len(fv)} for checking")

    net = build(f.shape[1], o.width)
    opt = torch.optim.AdamW(net.parameters(), lr=o.lr, weight_decay=o.weight_decay)
    per_epoch = len(f) // o.batch
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, o.epochs * per_epoch)
    for epoch in range(1, o.epochs + 1):
        net.train()
        order = torch.randperm(len(f))
        running = 0.0
        for b in range(per_epoch):
            i = order[b * o.batch:(b + 1) * o.batch]
            loss = ((net(f[i]).squeeze(1) - t[i]) ** 2).mean()
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            sched.step()
            running += loss.item()
        if epoch % 5 == 0:
            net.eval()
            with torch.no_grad():
                err = (net(fv).squeeze(1) * float(ts) + float(tm) - tv).abs().mean().item()
            print(f"epoch {epoch:3d}  train mse {running / per_epoch:.4f}  newest blasts: mean |ln error| {err:.3f}")


if __name__ == "__main__":
    main(sys.argv[1])
