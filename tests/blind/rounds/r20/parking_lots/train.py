"""Forecast the occupancy of a car park two hours ahead from the last five hours."""
import configparser
import logging
import os
import sys

import numpy as np
import torch
import torch.nn as nn

logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s", stream=sys.stdout)
log = logging.getLogger("parking")


def read_config(folder):
    cp = configparser.ConfigParser()
    with open(os.path.join(folder, "train.ini")) as f:
        cp.read_file(f)
    return cp


class Forecaster(nn.Module):
    def __init__(self, hidden, dropout):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv1d(1, 12, 5, padding=2), nn.ReLU(), nn.Conv1d(12, 12, 5, stride=2, padding=2), nn.ReLU())
        self.head = nn.Sequential(nn.Linear(12 * 10 + 3, hidden), nn.ReLU(), nn.Dropout(dropout), nn.Linear(hidden, 1))

    def forward(self, x):
        series, clock = x[:, :20], x[:, 20:]
        last = series[:, -1:]
        h = self.conv((series - last).unsqueeze(1)).flatten(1)
        return self.head(torch.cat([h, clock, last], 1)).squeeze(1) + last.squeeze(1)


def make_scheduler(opt, section):
    if section["kind"] == "step":
        return torch.optim.lr_scheduler.StepLR(opt, section.getint("decay_every"), section.getfloat("gamma"))
    if section["kind"] == "none":
        return torch.optim.lr_scheduler.LambdaLR(opt, lambda step: 1.0)
    raise ValueError(section["kind"])


def mae(model, x, y):
    model.eval()
    with torch.no_grad():
        return (model(x) - y).abs().mean().item()


def main(folder):
    cfg = read_config(folder)
    torch.manual_seed(14)
    z = np.load(os.path.join(folder, "lots.npz"))
    xt, yt, xv, yv = (torch.from_numpy(z[k]) for k in ("x_train", "y_train", "x_val", "y_val"))
    model = Forecaster(cfg["model"].getint("hidden"), cfg["model"].getfloat("dropout"))
    o = cfg["optim"]
    opt = torch.optim.Adam(model.parameters(), lr=o.getfloat("lr"), betas=(o.getfloat("momentum"), 0.999),
                           weight_decay=o.getfloat("weight_decay"))
    sched = make_scheduler(opt, cfg["schedule"])
    batch, step = o.getint("batch_size"), 0
    for epoch in range(o.getint("epochs")):
        model.train()
        total = 0.0
        for idx in torch.randperm(len(xt)).split(batch):
            loss = nn.functional.mse_loss(model(xt[idx]), yt[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            sched.step()
            step += 1
            total += loss.item() * len(idx)
        log.info("epoch %d step %d train mse %.5f val mae %.4f", epoch + 1, step, total / len(xt), mae(model, xv, yv))
    persistence = (xv[:, 19] - yv).abs().mean().item()
    log.info("final val mae %.4f (persistence %.4f)", mae(model, xv, yv), persistence)


if __name__ == "__main__":
    main(sys.argv[1])
