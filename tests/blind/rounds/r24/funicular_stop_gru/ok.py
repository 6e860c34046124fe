# Stopping distance of a funicular car from the last 60 s of telemetry before the brake command.
# usage: --epochs 7 --hidden 32
import argparse

import numpy as np
import torch
from torch import nn

ap = argparse.ArgumentParser()
ap.add_argument("--epochs", type=int, default=7)
ap.add_argument("--hidden", type=int, default=32)
ap.add_argument("--lr", type=float, default=4e-3)
ap.add_argument("--batch", type=int, default=64)
ap.add_argument("--seed", type=int, default=5)
args = ap.parse_args()
torch.manual_seed(args.seed)
rng = np.random.default_rng(args.seed)

CHANNELS = ["speed", "rope_tension", "grade", "motor_current", "brake_temp", "rain"]


def simulate(n, steps=60):
    passengers = rng.integers(0, 120, n)
    mass = 9000 + 75 * passengers
    grade = np.clip(rng.normal(0.32, 0.08, (n, 1)) + np.cumsum(rng.normal(0, 0.006, (n, steps)), 1), 0.05, 0.6)
    target = rng.uniform(5, 9, (n, 1))
    speed = target + np.cumsum(rng.normal(0, 0.05, (n, steps)), 1)
    rain = (rng.random((n, 1)) < 0.35) * rng.gamma(2, 0.6, (n, 1)) * (0.5 + rng.random((n, steps)))
    # heat from earlier dragging of the track brake leaks away with a time constant of about 40 s
    drag = (rng.random((n, steps)) < rng.beta(1, 6, (n, 1))).astype(float)
    temp = np.zeros((n, steps))
    for k in range(1, steps):
        temp[:, k] = temp[:, k - 1] * 0.975 + 6.0 * drag[:, k] * speed[:, k] / 7
    tension = mass[:, None] * 9.81 * np.sin(np.arctan(grade)) / 1000 + rng.normal(0, 3.0, (n, steps))
    current = 12 * speed * tension / 40 + 25 * drag + rng.normal(0, 6, (n, steps))
    probe = temp + rng.normal(0, 12.0, (n, steps))
    x = np.stack([speed + rng.normal(0, 0.2, speed.shape), tension, grade, current, probe, rain], -1)
    wet = rain.mean(1)
    mu = 0.62 - 0.06 * np.minimum(wet, 3) - 0.0025 * temp[:, -20:].mean(1)
    decel = np.maximum(0.45, 9.81 * mu - 9.81 * grade[:, -15:].mean(1) * (mass / 13000) ** 0.5)
    dist = speed[:, -1] ** 2 / (2 * decel) + rng.normal(0, 0.25, n)
    return x.astype(np.float32), dist.astype(np.float32)


x, y = simulate(2500)
n_train = 1800
mean, std = x[:n_train].mean((0, 1)), x[:n_train].std((0, 1))
x = torch.from_numpy((x - mean) / std)
y = torch.from_numpy(np.log(y.clip(0.5)))
y_mean, y_std = y[:n_train].mean(), y[:n_train].std()
x_tr, y_tr, x_va, y_va = x[:n_train], (y[:n_train] - y_mean) / y_std, x[n_train:], y[n_train:].exp()


class StopNet(nn.Module):
    def __init__(self, n_in, hidden):
        super().__init__()
        self.proj = nn.Linear(n_in, hidden)
        self.gru = nn.GRU(hidden, hidden, num_layers=1, batch_first=True)
        self.out = nn.Sequential(nn.Linear(hidden, hidden), nn.SiLU(), nn.Linear(hidden, 1))

    def forward(self, seq):
        h, _ = self.gru(torch.tanh(self.proj(seq)))
        return self.out(h[:, -1]).squeeze(-1)


net = StopNet(len(CHANNELS), args.hidden)
opt = torch.optim.Adam(net.parameters(), lr=args.lr)
steps_per_epoch = -(-n_train // args.batch)
sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, args.epochs * steps_per_epoch)
huber = nn.SmoothL1Loss()

for epoch in range(args.epochs):
    net.train()
    order = torch.randperm(n_train)
    running = 0.0
    for i in range(0, n_train, args.batch):
        idx = order[i:i + args.batch]
        opt.zero_grad()
        loss = huber(net(x_tr[idx]), y_tr[idx])
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
        sched.step()
        running += loss.item() * len(idx)
    net.eval()
    with torch.no_grad():
        pred = torch.cat([(net(b) * y_std + y_mean).exp() for b in x_va.split(args.batch)])
    mae = (pred - y_va).abs().mean().item()
    print(f"[{epoch + 1:02d}/{args.epochs}] huber {running / n_train:.4f} | val MAE {mae:.3f} m")

base = (y_va - y_va.median()).abs().mean().item()
print(f"median predictor {base:.3f} m, network {mae:.3f} m")
