"""Deterioration within 12 h from a day of bedside vitals (hourly charting, many gaps)."""
import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

SEED = 7
np.random.seed(SEED)
torch.manual_seed(SEED)
N, T = 3600, 24
BASE = np.array([84.0, 122.0, 18.0, 37.0, 96.0], dtype=np.float32)   # hr sbp rr temp spo2
SPAN = np.array([14.0, 16.0, 4.0, 0.6, 2.0], dtype=np.float32)


def simulate(n):
    """Charted vitals [patient, hour, sign] with NaN where nothing was charted."""
    base = np.random.randn(n, 1, 5) * 0.5
    sev = np.random.randn(n)
    slope = 0.8 * np.random.randn(n)
    hours = np.linspace(0, 1, T)[None, :, None]
    load = np.array([1.0, -0.9, 0.8, 0.4, -0.8])[None, None, :]
    x = base + load * (sev[:, None, None] + slope[:, None, None] * hours)
    x = x + 0.35 * np.random.randn(n, T, 5)
    logit = 2.2 * (sev + slope) - 1.5
    y = (np.random.rand(n) < 1 / (1 + np.exp(-logit))).astype(np.float32)
    x = (BASE + SPAN * x).astype(np.float32)
    x[np.random.rand(n, T, 5) < 0.7] = np.nan
    return x, y


def carry_forward(x):
    """Last charted value holds until the next one."""
    x = x.copy()
    for t in range(1, len(x)):
        x[t] = np.where(np.isnan(x[t]), x[t - 1], x[t])
    return x


def prepare(x, mean=None, std=None):
    x = carry_forward(x)
    if mean is None:
        mean, std = np.nanmean(x, axis=(0, 1)), np.nanstd(x, axis=(0, 1))
    x = (x - mean) / std
    return np.nan_to_num(x, nan=0.0).astype(np.float32), mean, std


class Monitor(nn.Module):
    def __init__(self, hidden=32):
        super().__init__()
        self.rnn = nn.GRU(5, hidden, batch_first=True)
        self.drop = nn.Dropout(0.2)
        self.head = nn.Linear(hidden, 1)

    def forward(self, x):
        _, h = self.rnn(x)
        return self.head(self.drop(h[-1])).squeeze(-1)


def auroc(score, y):
    rank = np.empty(len(score))
    rank[np.argsort(score)] = np.arange(1, len(score) + 1)
    p = y.sum()
    return (rank[y == 1].sum() - p * (p + 1) / 2) / (p * (len(y) - p))


def evaluate(model, x, y):
    model.eval()
    with torch.no_grad():
        s = model(torch.from_numpy(x)).numpy()
    return auroc(s, y)


raw, label = simulate(N)
cut1, cut2 = 2400, 2900
xtr, mu, sd = prepare(raw[:cut1])
xva, _, _ = prepare(raw[cut1:cut2], mu, sd)
xte, _, _ = prepare(raw[cut2:], mu, sd)
ytr, yva, yte = label[:cut1], label[cut1:cut2], label[cut2:]

loader = DataLoader(TensorDataset(torch.from_numpy(xtr), torch.from_numpy(ytr)), batch_size=64, shuffle=True)
model = Monitor()
opt = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=1e-3)
sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=10)
lossf = nn.BCEWithLogitsLoss()

for epoch in range(10):
    model.train()
    total = 0.0
    for xb, yb in loader:
        opt.zero_grad()
        loss = lossf(model(xb), yb)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        total += loss.item() * len(yb)
    sched.step()
    print(f"epoch {epoch} loss {total / cut1:.4f} val auroc {evaluate(model, xva, yva):.4f}")
print(f"test auroc {evaluate(model, xte, yte):.4f}")
