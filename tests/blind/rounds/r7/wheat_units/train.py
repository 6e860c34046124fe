"""Winter wheat yield per field; fitted on 2015-2020, checked on the 2021 season."""
import sys

import numpy as np
import torch
from torch import nn

SEED, EPOCHS, BATCH, LR = 9, 30, 64, 3e-3


def read_fields(path):
    with open(path) as f:
        names = f.readline().strip().split(",")
    table = np.loadtxt(path, delimiter=",", skiprows=1, dtype=np.float32)
    return names[:-1], torch.from_numpy(table[:, :-1]), torch.from_numpy(table[:, -1])


class Scaler:
    def fit(self, x):
        self.mean, self.std = x.mean(0), x.std(0)
        return self

    def __call__(self, x):
        return (x - self.mean) / self.std

    def invert(self, z):
        return z * self.std + self.mean


class YieldMLP(nn.Module):
    def __init__(self, n_in, width=48):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(n_in, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU(), nn.Dropout(0.05))
        self.out = nn.Linear(width, 1)

    def forward(self, x):
        return self.out(self.body(x)).squeeze(-1)


def season_report(model, x, y, y_scaler):
    model.eval()
    with torch.no_grad():
        pred = y_scaler.invert(model(x))
    resid = pred - y
    r2 = 1 - resid.pow(2).sum() / (y - y.mean()).pow(2).sum()
    return resid.pow(2).mean().sqrt().item(), resid.mean().item(), r2.item()


def main(folder):
    torch.manual_seed(SEED)
    names, x_fit, y_fit = read_fields(f"{folder}/fields_2015_2020.csv")
    _, x_new, y_new = read_fields(f"{folder}/fields_2021.csv")
    print("predictors:", ", ".join(names), "| fields:", len(y_fit), "+", len(y_new))
    xs, ys = Scaler().fit(x_fit), Scaler().fit(y_fit)
    x_fit, x_new, z_fit = xs(x_fit), xs(x_new), ys(y_fit)

    model = YieldMLP(len(names))
    opt = torch.optim.AdamW(model.parameters(), lr=LR, weight_decay=1e-3)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, EPOCHS)
    loss_fn = nn.SmoothL1Loss()
    for epoch in range(1, EPOCHS + 1):
        model.train()
        total = 0.0
        for idx in torch.randperm(len(z_fit)).split(BATCH):
            loss = loss_fn(model(x_fit[idx]), z_fit[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(idx)
        sched.step()
        if epoch % 5 == 0:
            rmse, bias, r2 = season_report(model, x_new, y_new, ys)
            print(f"epoch {epoch:2d}  fit loss {total / len(z_fit):.4f}  2021: rmse {rmse:.3f} t/ha  bias {bias:+.3f}  R2 {r2:.3f}")


main(sys.argv[1])
