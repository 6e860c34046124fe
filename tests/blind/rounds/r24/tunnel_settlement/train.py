# Surface displacement above a shield tunnel drive from the machine data of the last rings (GRU).
import configparser
import glob
import os
import sys

import numpy as np
import torch
import torch.nn as nn


def read_sections(folder):
    xs, ys = [], []
    for path in sorted(glob.glob(os.path.join(folder, "section_*.npz"))):
        with np.load(path) as z:
            xs.append(z["tbm"])
            ys.append(z["displacement_mm"])
    return np.concatenate(xs), np.concatenate(ys)


class SettlementGRU(nn.Module):
    def __init__(self, n_features, hidden):
        super().__init__()
        self.gru = nn.GRU(n_features, hidden, batch_first=True)
        self.head = nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1))

    def forward(self, x):
        _, h = self.gru(x)
        return self.head(h[-1]).squeeze(-1)


def fit(model, x, y, xv, yv, y_mean, y_std, cfg):
    epochs, batch = cfg.getint("epochs"), cfg.getint("batch")
    opt = torch.optim.AdamW(model.parameters(), lr=cfg.getfloat("lr"), weight_decay=1e-3)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, epochs)
    for epoch in range(epochs):
        model.train()
        running = 0.0
        for idx in torch.randperm(len(x)).split(batch):
            loss = ((model(x[idx]) - y[idx]) ** 2).mean()
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            running += loss.item() * len(idx)
        sched.step()
        model.eval()
        with torch.no_grad():
            mae = (model(xv) * y_std + y_mean - yv).abs().mean().item()
        print("epoch %2d  train mse %.4f  val MAE %.3f mm" % (epoch + 1, running / len(x), mae))


def main(folder):
    cfg = configparser.ConfigParser()
    cfg.read(os.path.join(folder, "run.ini"))
    run = cfg["train"]
    torch.manual_seed(run.getint("seed"))
    x, y = read_sections(folder)
    order = np.random.default_rng(run.getint("seed")).permutation(len(x))
    n_val = int(len(x) * run.getfloat("val_share"))
    val, train = order[:n_val], order[n_val:]
    mean, std = x[train].mean((0, 1)), x[train].std((0, 1))
    y_mean, y_std = float(y[train].mean()), float(y[train].std())
    z = torch.from_numpy((x - mean) / std)
    t = torch.from_numpy(y)
    print(f"{len(train)} windows for training, {len(val)} for validation")
    model = SettlementGRU(x.shape[2], cfg["model"].getint("hidden"))
    fit(model, z[train], (t[train] - y_mean) / y_std, z[val], t[val], y_mean, y_std, run)
    return model, (mean, std, y_mean, y_std, val)


if __name__ == "__main__":
    main(sys.argv[1])
