"""Expected number of elvers on an eel ladder per day. The river trust uses it to decide
when the turbine intake screens are lowered. Days without a count are left out."""
import argparse
import json
import math
import os

import numpy as np
import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("folder")


def read_rows(folder):
    with open(os.path.join(folder, "ladders.jsonl")) as f:
        rows = [json.loads(line) for line in f if line.strip()]
    counted = [r for r in rows if r["eels"] is not None]
    print(f"{len(rows)} ladder days, {len(counted)} with a count")
    return counted


def to_arrays(rows, ladders):
    x = []
    for r in rows:
        moon = 2 * math.pi * r["moon_phase"]
        x.append([math.log(r["discharge_m3s"]), r["water_c"], r["cloud_okta"], math.cos(moon), math.sin(moon)]
                 + [float(r["ladder"] == name) for name in ladders])
    eels = np.array([r["eels"] for r in rows], dtype=np.float32)
    return np.array(x, dtype=np.float32), eels


def build(n_in, hidden, start):
    layers, width = [], n_in
    for h in hidden:
        layers += [nn.Linear(width, h), nn.Tanh()]
        width = h
    last = nn.Linear(width, 1)
    nn.init.constant_(last.bias, start)
    return nn.Sequential(*layers, last)


def poisson_cost(log_rate, eels):
    return (torch.exp(log_rate) - eels * log_rate).mean()


def deviance(rate, eels):
    safe = np.where(eels > 0, eels, 1.0)
    return float(np.mean(2 * (np.where(eels > 0, eels * np.log(safe / rate), 0.0) - (eels - rate))))


def predict(net, x):
    net.eval()
    with torch.no_grad():
        return torch.exp(net(x).squeeze(1).clamp(max=8)).numpy()


def run(folder):
    with open(os.path.join(folder, "model.json")) as f:
        cfg = json.load(f)
    torch.manual_seed(cfg["seed"])
    rows = read_rows(folder)
    ladders = sorted({r["ladder"] for r in rows})
    early = [r for r in rows if r["day"] < cfg["validation_from_day"]]
    late = [r for r in rows if r["day"] >= cfg["validation_from_day"]]
    x, eels = to_arrays(early, ladders)
    x_val, eels_val = to_arrays(late, ladders)
    mean, std = x.mean(0), x.std(0)
    x, x_val = torch.from_numpy((x - mean) / std), torch.from_numpy((x_val - mean) / std)
    target = torch.from_numpy(eels)

    net = build(x.size(1), cfg["hidden"], math.log(eels.mean()))
    opt = torch.optim.Adam(net.parameters(), lr=cfg["lr"])
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, cfg["epochs"])
    for epoch in range(1, cfg["epochs"] + 1):
        net.train()
        costs = []
        for idx in torch.randperm(len(x)).split(cfg["batch"]):
            cost = poisson_cost(net(x[idx]).squeeze(1).clamp(max=8), target[idx])
            opt.zero_grad()
            cost.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 5.0)
            opt.step()
            costs.append(cost.item())
        sched.step()
        if epoch % 2 == 0:
            rate = predict(net, x_val)
            print(f"epoch {epoch:2d}  train {np.mean(costs):8.3f}  val deviance {deviance(rate, eels_val):.3f}  "
                  f"val MAE {np.abs(rate - eels_val).mean():.2f} eels/day")
    flat = np.full_like(eels_val, eels.mean())
    print(f"constant rate: deviance {deviance(flat, eels_val):.3f}")
    return net, ladders, mean, std


if __name__ == "__main__":
    run(parser.parse_args().folder)
