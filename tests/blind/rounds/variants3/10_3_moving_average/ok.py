import numpy as np
import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

rng = np.random.default_rng(32)
torch.manual_seed(32)
SPANS = (3, 7, 15)


def river_levels(days):
    rain = rng.gamma(0.6, 1.0, days)
    season = 1 + 0.5 * np.sin(2 * np.pi * np.arange(days) / 365)
    level = np.zeros(days)
    for d in range(2, days):
        level[d] = 1.25 * level[d - 1] - 0.40 * level[d - 2] + season[d] * (0.45 * rain[d - 1] + 0.15 * rain[d])
    return np.log1p(level), rain


def smooth(v, span):
    kernel = np.ones(span) / span
    return np.convolve(v, kernel)[: len(v)]


def table(level, rain):
    cols = [level, np.r_[0.0, np.diff(level)], rain]
    cols += [smooth(level, s) for s in SPANS]
    cols += [smooth(rain, s) for s in SPANS]
    x = np.stack(cols, axis=1)[20:-20]
    y = level[21:-19]
    return x.astype(np.float32), y.astype(np.float32)


x, y = table(*river_levels(3000))
cut = int(0.75 * len(x))
gap = max(SPANS)
mu, sd = x[: cut - gap].mean(0), x[: cut - gap].std(0)
x = torch.from_numpy((x - mu) / sd)
y = torch.from_numpy(y)
train_x, train_y, valid_x, valid_y = x[: cut - gap], y[: cut - gap], x[cut:], y[cut:]

model = nn.Sequential(nn.Linear(x.shape[1], 64), nn.SiLU(), nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, 1), nn.Flatten(0))
opt = torch.optim.Adam(model.parameters(), lr=2e-3)
loader = DataLoader(TensorDataset(train_x, train_y), batch_size=64, shuffle=True)
sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, 10)
persist = F.mse_loss(valid_y[:-1], valid_y[1:]).item()

for epoch in range(10):
    model.train()
    for xb, yb in loader:
        loss = F.mse_loss(model(xb), yb)
        opt.zero_grad()
        loss.backward()
        opt.step()
    sched.step()
    model.eval()
    with torch.no_grad():
        mse = F.mse_loss(model(valid_x), valid_y)
    print(f"epoch {epoch}  valid mse {mse.item():.5f}  (persistence {persist:.5f})  "
          f"R2 {1 - (mse / valid_y.var()).item():.4f}")
