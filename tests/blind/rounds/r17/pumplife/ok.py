"""Time to failure of centrifugal pumps: Weibull regression with right censoring."""
import numpy as np
import torch
import torch.nn as nn

COLUMNS = ["vibration_rms", "bearing_temp", "starts_per_day", "duty", "sand_content", "age_seal"]


def fleet(n, rng):
    x = np.column_stack([
        rng.gamma(4, 0.7, n), rng.normal(62, 8, n), rng.poisson(5, n), rng.beta(4, 2, n), rng.gamma(1.2, 0.5, n), rng.uniform(0, 36, n)])
    risk = (0.45 * (x[:, 0] - 2.8) + 0.05 * (x[:, 1] - 62) + 0.08 * (x[:, 2] - 5) + 1.2 * (x[:, 3] - .66)
            + 0.7 * (x[:, 4] - .6) + 0.02 * (x[:, 5] - 18) + 0.3 * (x[:, 0] - 2.8) * (x[:, 4] - .6))
    life = 20 * np.exp(-risk / 1.4) * rng.weibull(1.8, n)
    end = rng.uniform(4, 45, n)
    return x.astype(np.float32), np.minimum(life, end).astype(np.float32), (life <= end).astype(np.float32)


class WeibullNet(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(d, 32), nn.Tanh(), nn.Linear(32, 1))
        self.log_shape = nn.Parameter(torch.zeros(()))

    def forward(self, x):
        return self.body(x).squeeze(-1)


def weibull_nll(log_scale, log_shape, time, event):
    k = log_shape.exp()
    z = k * (time.log() - log_scale)
    log_hazard = log_shape + z - time.log()
    return (z.exp() - event * log_hazard).mean()


def concordance(scale, time, event):
    scale, time, event = scale.flatten().numpy(), time.numpy(), event.numpy()
    first = (time[:, None] < time[None, :]) & (event[:, None] > 0)
    right = (scale[:, None] < scale[None, :]) + 0.5 * (scale[:, None] == scale[None, :])
    return float((right * first).sum() / first.sum())


rng = np.random.default_rng(12)
torch.manual_seed(12)
xtr, ttr, etr = map(torch.from_numpy, fleet(2000, rng))
xte, tte, ete = map(torch.from_numpy, fleet(800, rng))
mean, std = xtr.mean(0), xtr.std(0)
xtr, xte = (xtr - mean) / std, (xte - mean) / std

net = WeibullNet(len(COLUMNS))
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for epoch in range(24):
    total = 0.0
    for ix in torch.randperm(len(xtr)).split(64):
        loss = weibull_nll(net(xtr[ix]), net.log_shape, ttr[ix], etr[ix])
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss.item() * len(ix)
    if epoch % 4 == 3:
        print(f"epoch {epoch + 1:2d} nll {total / len(xtr):.4f} shape {net.log_shape.exp().item():.3f}")
with torch.no_grad():
    c = concordance(net(xte), tte, ete)
print(f"held-out concordance {c:.4f}  (censored {1 - ete.mean().item():.2f})")
