import configparser
import csv
import math
import os
import sys
from datetime import date

import numpy as np
import torch
import torch.nn as nn

STOP_COLUMNS = ["residents", "jobs", "school", "station_km", "lines"]


class StopTable:
    """Surroundings of each stop; temporary stops (road works) are not listed and get the median."""

    def __init__(self, path):
        with open(path, newline="") as f:
            self.rows = {r["stop"]: [float(r[c]) for c in STOP_COLUMNS] for r in csv.DictReader(f)}
        self.typical = np.median(list(self.rows.values()), axis=0).tolist()

    def __getitem__(self, stop):
        res, jobs, school, km, lines = self.rows.get(stop, self.typical)
        return [math.log(res), math.log(jobs), school, km, lines]


def ticket_features(row, stops):
    day = date.fromisoformat(row["date"])
    hour = int(row["hour"])
    clock = [f(2 * math.pi * k * hour / 24) for k in (1, 2, 3) for f in (math.sin, math.cos)]
    return clock + [float(day.weekday() < 5), float(row["rain_mm"])] + stops[row["stop"]]


def load(folder, first_valid):
    stops = StopTable(os.path.join(folder, "stops.csv"))
    sets = {False: ([], []), True: ([], [])}
    with open(os.path.join(folder, "tickets.csv"), newline="") as f:
        for row in csv.DictReader(f):
            xs, ys = sets[row["date"] >= first_valid]
            xs.append(ticket_features(row, stops))
            ys.append(float(row["boardings"]))
    (xt, yt), (xv, yv) = [(torch.tensor(x), torch.tensor(y)) for x, y in (sets[False], sets[True])]
    mean, std = xt.mean(0), xt.std(0)
    return (xt - mean) / std, yt, (xv - mean) / std, yv


def main(folder):
    ini = configparser.ConfigParser()
    ini.read(os.path.join(folder, "run.ini"))
    cfg = ini["train"]
    torch.manual_seed(cfg.getint("seed"))
    xt, yt, xv, yv = load(folder, ini["split"]["first_valid_date"])
    h = cfg.getint("hidden")
    net = nn.Sequential(nn.Linear(xt.shape[1], h), nn.SiLU(), nn.Linear(h, h), nn.SiLU(), nn.Linear(h, 1))
    nn.init.constant_(net[-1].bias, yt.mean().log().item())
    opt = torch.optim.Adam(net.parameters(), lr=cfg.getfloat("lr"))
    plan = torch.optim.lr_scheduler.CosineAnnealingLR(opt, cfg.getint("epochs"))
    poisson = nn.PoissonNLLLoss(log_input=True)
    print(f"{len(yt)} training rows, {len(yv)} validation rows, {xt.shape[1]} features")

    for epoch in range(1, cfg.getint("epochs") + 1):
        net.train()
        losses = []
        for rows in torch.randperm(len(yt)).split(cfg.getint("batch")):
            loss = poisson(net(xt[rows]).squeeze(1), yt[rows])
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 5.0)
            opt.step()
            losses.append(loss.item())
        plan.step()
        if epoch % 4 == 0:
            net.eval()
            with torch.no_grad():
                mae = (net(xv).squeeze(1).exp() - yv).abs().mean().item()
            print(f"epoch {epoch:3d}  poisson loss {np.mean(losses):9.3f}  valid MAE {mae:6.2f} passengers")


if __name__ == "__main__":
    main(sys.argv[1])
