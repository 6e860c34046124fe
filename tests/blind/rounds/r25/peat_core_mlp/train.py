# Organic carbon (%) of peat from near-infrared reflectance of core slices.
import json
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn


@dataclass
class Config:
    hidden: int = 96
    epochs: int = 30
    batch: int = 64
    lr: float = 2e-3
    weight_decay: float = 1e-3
    seed: int = 11


def read_parts(folder):
    manifest = json.loads((folder / "manifest.json").read_text())
    tables = []
    for part in manifest["parts"]:
        rows = np.load(folder / part["file"])
        if rows.shape != (part["rows"], len(manifest["columns"])):
            raise ValueError(f"{part['file']}: unexpected shape {rows.shape}")
        tables.append(rows)
    return np.concatenate(tables), np.load(folder / manifest["holdout"])


def to_xy(rows):
    t = torch.from_numpy(rows)
    return t[:, :-1], t[:, -1:]


def make_model(n_in, hidden):
    return nn.Sequential(
        nn.Linear(n_in, hidden), nn.SiLU(),
        nn.Linear(hidden, hidden), nn.SiLU(),
        nn.Linear(hidden, 1),
    )


def batches(x, y, size, gen):
    order = torch.randperm(len(x), generator=gen)
    for k in range(0, len(order), size):
        pick = order[k:k + size]
        yield x[pick], y[pick]


def main(folder, cfg=Config()):
    torch.manual_seed(cfg.seed)
    gen = torch.Generator().manual_seed(cfg.seed)
    train_rows, hold_rows = read_parts(Path(folder))
    x, y = to_xy(train_rows)
    xh, yh = to_xy(hold_rows)
    print(f"{len(x)} slices for training, {len(xh)} held out")

    mx, sx = x.mean(0), x.std(0).clamp_min(1e-6)
    my, sy = y.mean(), y.std()
    x, xh = (x - mx) / sx, (xh - mx) / sx

    model = make_model(x.shape[1], cfg.hidden)
    opt = torch.optim.AdamW(model.parameters(), lr=cfg.lr, weight_decay=cfg.weight_decay)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, cfg.epochs)

    def holdout():
        model.eval()
        with torch.no_grad():
            pred = model(xh) * sy + my
        rmse = (pred - yh).pow(2).mean().sqrt().item()
        r2 = 1 - ((pred - yh).pow(2).sum() / (yh - yh.mean()).pow(2).sum()).item()
        return rmse, r2

    for epoch in range(1, cfg.epochs + 1):
        model.train()
        losses = []
        for xb, yb in batches(x, (y - my) / sy, cfg.batch, gen):
            loss = (model(xb) - yb).pow(2).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
            losses.append(loss.item())
        sched.step()
        if epoch % 10 == 0:
            rmse, r2 = holdout()
            print(f"epoch {epoch:3d}  train mse {np.mean(losses):.4f}  holdout rmse {rmse:.3f} %C  r2 {r2:.3f}")

    rmse, r2 = holdout()
    print(f"holdout rmse {rmse:.3f} %C  r2 {r2:.3f}")


if __name__ == "__main__":
    main(sys.argv[1])
