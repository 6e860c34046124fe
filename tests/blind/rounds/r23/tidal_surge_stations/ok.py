# storm surge residual at tide gauges, from pressure / wind / tide phase
import math
import random

import numpy as np
import torch
from torch import nn

SEED = 11
random.seed(SEED)
np.random.seed(SEED)
torch.manual_seed(SEED)

N_STATIONS = 6
HOURS = 600
EPOCHS = 24
BATCH = 64
LR = 2e-3


def simulate(rng):
    rows, target = [], []
    for s in range(N_STATIONS):
        shelf = rng.uniform(0.6, 1.6)
        coast = rng.uniform(0, 2 * math.pi)
        p = 1013.0
        wu = wv = 0.0
        for h in range(HOURS):
            p += 0.06 * (1013 - p) + rng.normal(0, 1.6)
            wu = 0.94 * wu + rng.normal(0, 1.8)
            wv = 0.94 * wv + rng.normal(0, 1.8)
            phase = 2 * math.pi * h / 12.42
            speed = math.hypot(wu, wv)
            onshore = speed * (wu * math.cos(coast) + wv * math.sin(coast))
            surge = (1013 - p) * 1.0 + 0.22 * shelf * onshore
            surge += 0.05 * onshore * math.cos(phase) + rng.normal(0, 2.5)
            onehot = [1.0 if s == k else 0.0 for k in range(N_STATIONS)]
            rows.append([p, wu, wv, speed, math.sin(phase), math.cos(phase)] + onehot)
            target.append(surge)
    return np.array(rows, dtype=np.float32), np.array(target, dtype=np.float32)


X, y = simulate(np.random.default_rng(SEED))
hour = np.tile(np.arange(HOURS), N_STATIONS)
train, valid = hour < 450, hour >= 474

mu, sd = X[train].mean(0), X[train].std(0) + 1e-6
X = (X - mu) / sd
y_mu, y_sd = y[train].mean(), y[train].std()

xt = torch.from_numpy(X[train])
yt = torch.from_numpy((y[train] - y_mu) / y_sd)
xv = torch.from_numpy(X[valid])
yv = y[valid]

net = nn.Sequential(
    nn.Linear(X.shape[1], 96), nn.SiLU(),
    nn.Linear(96, 96), nn.SiLU(),
    nn.Linear(96, 1),
)
opt = torch.optim.AdamW(net.parameters(), lr=LR, weight_decay=1e-4)
sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, EPOCHS)


def rmse_cm():
    net.eval()
    with torch.no_grad():
        out = net(xv).numpy().ravel() * y_sd + y_mu
    net.train()
    return float(np.sqrt(np.mean((out - yv) ** 2)))


for epoch in range(1, EPOCHS + 1):
    perm = torch.randperm(len(xt))
    running = 0.0
    for i in range(0, len(xt), BATCH):
        idx = perm[i:i + BATCH]
        pred = net(xt[idx]).squeeze(1)
        err = pred - yt[idx]
        # large residuals count less (pseudo-Huber)
        loss = (torch.sqrt(1 + err ** 2) - 1).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        running += loss.item() * len(idx)
    sched.step()
    if epoch % 4 == 0:
        print(f"epoch {epoch:3d}  train loss {running / len(xt):.4f}  valid RMSE {rmse_cm():.2f} cm")

print(f"final valid RMSE {rmse_cm():.3f} cm  (std of surge {yv.std():.2f} cm)")
