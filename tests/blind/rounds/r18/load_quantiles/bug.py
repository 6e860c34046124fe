import math
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

# Day-ahead electricity load: quantiles 5 / 25 / 50 / 75 / 95 % per hour
QUANTILES = [0.05, 0.25, 0.5, 0.75, 0.95]
rng = np.random.default_rng(12)
torch.manual_seed(12)

hours = np.arange(24 * 420)
hod, dow, doy = hours % 24, (hours // 24) % 7, (hours // 24) % 365
temp = 10 + 9 * np.sin(2 * np.pi * (doy - 110) / 365) + 4 * np.sin(2 * np.pi * (hod - 9) / 24) + rng.normal(0, 2, len(hours))
level = 40 + 9 * np.sin(2 * np.pi * (hod - 8) / 24) - 6 * (dow >= 5) + 0.05 * (temp - 16) ** 2
spread = 0.8 + 2.2 * ((hod > 16) & (hod < 22)) + 0.12 * np.abs(temp - 16)
load = level + spread * rng.gumbel(0, 1, len(hours))
feats = np.stack([np.sin(2 * np.pi * hod / 24), np.cos(2 * np.pi * hod / 24), np.sin(4 * np.pi * hod / 24), np.cos(4 * np.pi * hod / 24),
                  (dow >= 5).astype(float), (temp - 10) / 8, ((temp - 16) / 10) ** 2], 1)

order = rng.permutation(len(hours))
cut = int(0.8 * len(order))
mu, sd = load[order[:cut]].mean(), load[order[:cut]].std()
X = torch.tensor(feats, dtype=torch.float32)
y = torch.tensor((load - mu) / sd, dtype=torch.float32)
tr, te = torch.from_numpy(order[:cut]), torch.from_numpy(order[cut:])


class QuantileNet(nn.Module):
    def __init__(self, n_in, n_q, width=64):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(n_in, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU())
        self.low, self.steps = nn.Linear(width, 1), nn.Linear(width, n_q - 1)

    def forward(self, x):
        h = self.body(x)
        low = self.low(h)
        return torch.cat([low, low + F.softplus(self.steps(h)).cumsum(1)], dim=1)


def pinball(err, q):
    return torch.maximum(q * err, (q - 1) * err).mean()


def training_loss(pred, target):
    total = 0.0
    for i, q in enumerate(QUANTILES):
        total = total + pinball(target - pred[:, i:i + 1], q)
    return total / len(QUANTILES)


net = QuantileNet(X.shape[1], len(QUANTILES))
opt = torch.optim.Adam(net.parameters(), lr=2e-3)
for epoch in range(13):
    perm = tr[torch.randperm(len(tr))]
    for i in range(0, len(perm) - 127, 128):
        b = perm[i:i + 128]
        loss = training_loss(net(X[b]), y[b])
        opt.zero_grad()
        loss.backward()
        opt.step()
    if epoch % 3 == 0:
        print(f"epoch {epoch + 1} loss {loss.item():.4f}")

with torch.no_grad():
    p = net(X[te]) * sd + mu
actual = torch.tensor(load, dtype=torch.float32)[te]
q = torch.tensor(QUANTILES)
e = actual[:, None] - p
score = torch.maximum(q * e, (q - 1) * e).mean().item()
inside = ((actual > p[:, 0]) & (actual < p[:, -1])).float().mean().item()
print(f"test pinball {score:.4f} MW, 90% band covers {inside:.3f}, mean width {(p[:, -1] - p[:, 0]).mean().item():.2f} MW")
