"""Sideways movement of a cricket ball off the pitch (cm at the stumps, positive = away),
as a density: a ball that lands on the seam goes one way or the other."""
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(29)
rng = np.random.default_rng(29)

FEATURES = ["release_speed_kmh", "seam_angle_deg", "wobble_deg", "ball_age_overs", "grass_mm", "moisture_pct", "length_m"]
N_BALLS, N_TRAIN = 4200, 3300
N_COMP = 4


def deliveries(n):
    speed = rng.normal(131, 8, n)
    seam = rng.normal(0, 9, n)
    wobble = rng.gamma(2.0, 4.0, n)
    age = rng.uniform(0, 80, n)
    grass = rng.uniform(2, 9, n)
    moist = rng.uniform(5, 25, n)
    length = rng.normal(6.5, 1.3, n)
    grip = (0.4 + 0.09 * grass + 0.02 * moist) * np.exp(-age / 70)
    hit = rng.random(n) < 1 / (1 + np.exp(-(0.35 * (grass - 5) + 0.25 * (8 - wobble))))
    side_p = 1 / (1 + np.exp(-seam / 3.0))
    side = np.where(rng.random(n) < side_p, 1.0, -1.0)
    size = 9.0 * grip * (0.5 + 0.5 * length / 6.5) * (speed / 131)
    move = np.where(hit, side * size * 1.6, 0.12 * seam) + rng.normal(0, 1.0 + 0.03 * age, n)
    x = np.column_stack([speed, seam, wobble, age, grass, moist, length])
    return x.astype(np.float32), move.astype(np.float32)


class MixtureNet(nn.Module):
    def __init__(self, n_in, hidden, k):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(n_in, hidden), nn.GELU(), nn.Linear(hidden, hidden), nn.GELU())
        self.share = nn.Linear(hidden, k)
        self.centre = nn.Linear(hidden, k)
        self.width = nn.Linear(hidden, k)
        with torch.no_grad():
            self.centre.bias.copy_(torch.linspace(-1.5, 1.5, k))

    def forward(self, x):
        h = self.trunk(x)
        return self.share(h), self.centre(h), F.softplus(self.width(h)) + 0.03


def mixture_cost(share, centre, width, y):
    part = share.softmax(dim=-1)
    z = (y[:, None] - centre) / width
    comp = -0.5 * z * z - width.log() - 0.5 * math.log(2 * math.pi)
    return -torch.logsumexp(part + comp, dim=-1).mean()


@torch.no_grad()
def density_score(net, x, y, scale):
    net.eval()
    share, centre, width = (t.double().numpy() for t in net(x))
    w = np.exp(share - share.max(1, keepdims=True))
    w /= w.sum(1, keepdims=True)
    yy = y.double().numpy()[:, None]
    dens = (w * np.exp(-0.5 * ((yy - centre) / width) ** 2) / (width * math.sqrt(2 * math.pi))).sum(1)
    side = (w * 0.5 * (1 + np.vectorize(math.erf)(centre / width / math.sqrt(2)))).sum(1)
    away = yy[:, 0] > 0
    brier = ((side - away) ** 2).mean()
    return -np.log(np.maximum(dens, 1e-12) / scale).mean(), brier


x_raw, move = deliveries(N_BALLS)
centre_x, spread_x = x_raw[:N_TRAIN].mean(0), x_raw[:N_TRAIN].std(0)
x = torch.from_numpy((x_raw - centre_x) / spread_x)
scale = float(move[:N_TRAIN].std())
y = torch.from_numpy(move / scale)

net = MixtureNet(len(FEATURES), 48, N_COMP)
optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
EPOCHS, BATCH = 24, 96
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS, eta_min=1e-4)
for epoch in range(EPOCHS):
    net.train()
    order = torch.randperm(N_TRAIN)
    costs = []
    for start in range(0, N_TRAIN, BATCH):
        rows = order[start:start + BATCH]
        cost = mixture_cost(*net(x[rows]), y[rows])
        optimizer.zero_grad(set_to_none=True)
        cost.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 5.0)
        optimizer.step()
        costs.append(cost.item())
    schedule.step()
    if epoch % 4 == 3:
        nll, brier = density_score(net, x[N_TRAIN:], y[N_TRAIN:], scale)
        print(f"epoch {epoch + 1:2d}  train {np.mean(costs):7.3f}  val NLL {nll:.3f} nats/cm  side Brier {brier:.4f}")
