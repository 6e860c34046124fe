import csv
import math
import os
import sys
from datetime import datetime

import torch
from torch import nn

folder = sys.argv[1]
CAPACITY = 500.0


def table(name):
    with open(os.path.join(folder, name)) as f:
        return {r.pop("timestamp"): r for r in csv.DictReader(f)}


def dataset(year):
    weather, power = table(f"weather_{year}.csv"), table(f"power_{year}.csv")
    xs, ys = [], []
    for ts in sorted(weather.keys() & power.keys()):
        t = datetime.strptime(ts, "%Y-%m-%d %H:%M")
        w = weather[ts]
        day, hour = 2 * math.pi * t.timetuple().tm_yday / 365, 2 * math.pi * t.hour / 24
        xs.append([float(w["cloud_cover"]), float(w["temperature"]) / 20, float(w["wind_speed"]) / 5,
                   math.sin(day), math.cos(day), math.sin(hour), math.cos(hour), math.sin(2 * hour), math.cos(2 * hour)])
        ys.append(float(power[ts]["kw"]) / CAPACITY)
    return torch.tensor(xs), torch.tensor(ys)


def mlp(sizes):
    layers = []
    for a, b in zip(sizes[:-1], sizes[1:]):
        layers += [nn.Linear(a, b), nn.Tanh()]
    return nn.Sequential(*layers[:-1])


torch.manual_seed(40)
x, y = dataset(2022)
xt, yt = dataset(2023)
print("hours for training", len(x), "hours for test", len(xt))
net = mlp([x.shape[1], 48, 48, 1])
opt = torch.optim.Adam(net.parameters(), lr=4e-3)
steps, batch = 1500, 128
sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, steps)
avg = None
for step in range(1, steps + 1):
    i = torch.randint(0, len(x), (batch,))
    loss = nn.functional.mse_loss(net(x[i]).squeeze(1), y[i])
    opt.zero_grad()
    loss.backward()
    opt.step()
    sched.step()
    avg = loss.item() if avg is None else 0.98 * avg + 0.02 * loss.item()
    if step % 250 == 0:
        print(f"step {step} loss {avg:.5f}")

with torch.no_grad():
    pred = net(xt).squeeze(1).clamp(min=0)
rmse = ((pred - yt) ** 2).mean().sqrt().item() * CAPACITY
print(f"rmse 2023: {rmse:.2f} kW")
