import csv
import json
import math
from pathlib import Path

import numpy as np
import torch
from torch import nn

from train import INPUTS, FilmNet

rng = np.random.default_rng(40)
torch.manual_seed(40)
EPOCHS, PEAK, FLOOR = 30, 2e-3, 4e-6


def panels(n, line):
    flow, rpm = rng.normal(300, 45, n), rng.normal(45, 7, n)
    kv, dist = rng.normal(65, 8, n), rng.normal(230, 20, n)
    temp, hum, visc = rng.normal(23, 1.2, n), rng.normal(62, 5, n), rng.normal(28, 2.5, n)
    f, r, k, d, h, v = (flow - 300) / 45, (rpm - 45) / 7, (kv - 65) / 8, (dist - 230) / 20, (hum - 62) / 5, (visc - 28) / 2.5
    if line == "A":
        film = 36 + 4.5 * f - 1.6 * r + 1.4 * np.tanh(k) - 1.2 * d + 0.8 * f * k + 0.5 * v - 0.4 * h
    else:
        film = 39 + 3.4 * f - 2.6 * np.tanh(1.2 * r) + 2.4 * k - 0.7 * k ** 2 - 0.5 * d + 1.1 * r * v + 0.9 * v + 0.6 * f * k
    film = film + 0.3 * (temp - 23) + rng.normal(0, 0.5, n)
    return np.column_stack([flow, rpm, kv, dist, temp, hum, visc]).round(2), film.round(2)


x, y = (torch.tensor(v, dtype=torch.float32) for v in panels(3000, "A"))
model = FilmNet()
model.x_mean, model.x_std, model.y_mean, model.y_std = x.mean(0), x.std(0), y.mean(), y.std()
opt = torch.optim.AdamW(model.parameters(), lr=PEAK, weight_decay=1e-3)
for epoch in range(EPOCHS):
    opt.param_groups[0]["lr"] = FLOOR + (PEAK - FLOOR) * (1 + math.cos(math.pi * epoch / (EPOCHS - 1))) / 2
    for idx in torch.randperm(len(y)).split(64):
        loss = nn.functional.huber_loss(model(x[idx]), (y[idx] - model.y_mean) / model.y_std)
        opt.zero_grad()
        loss.backward()
        opt.step()

xb, yb = panels(800, "B")
for side in ("ok", "bug"):
    out = Path(__file__).parent / side
    out.mkdir(exist_ok=True)
    with open(out / "line_b.csv", "w", newline="") as f:
        w = csv.writer(f)
        w.writerow([*INPUTS, "film_um"])
        w.writerows([*a, b] for a, b in zip(xb, yb))
    (out / "settings.json").write_text(json.dumps(
        dict(epochs=40, batch=32, lr=1e-3, weight_decay=1e-3, valid_share=0.3, seed=6), indent=2))
    opt.param_groups[0]["lr"] = 1e-3 if side == "ok" else FLOOR
    torch.save({"epoch": EPOCHS, "model": model.state_dict(), "optimizer": opt.state_dict()}, out / "line_a.pt")
