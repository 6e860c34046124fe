"""Keirin training on the track: from the last laps of a rider's power meter, guess the peak power of the coming sprint.

Each record has 24 quarter laps (power, cadence, gap to the wheel in front, gear shift of the trainer bike).
How hard the rider can go depends on the effort at which the lactate probe was set off, and on how long ago that was.
"""
import math

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split

torch.manual_seed(31)

QUARTERS = 24
N_RECORDS = 2600


def make_records(n):
    power = 260 + 90 * torch.randn(n, QUARTERS)
    drift = torch.cumsum(4 * torch.randn(n, QUARTERS), dim=1)
    power = (power + drift).clamp(min=40)
    cadence = 88 + 0.05 * (power - 260) + 4 * torch.randn(n, QUARTERS)
    gap = 0.4 + 0.5 * torch.rand(n, QUARTERS)
    probe = torch.zeros(n, QUARTERS)
    when = torch.randint(2, QUARTERS - 2, (n,))
    rows = torch.arange(n)
    probe[rows, when] = 1.0
    at_probe = power[rows, when]
    since = (QUARTERS - 1 - when).float()
    peak = 1150 - 1.3 * (at_probe - 260) + 9.0 * since + 0.25 * (power[:, -1] - 260)
    peak = peak + 12 * torch.randn(n)
    return torch.stack([power, cadence, gap, probe], dim=2), peak


def positions(length, width):
    t = torch.arange(length).float().unsqueeze(1)
    rate = torch.exp(torch.arange(0, width, 2).float() * (-math.log(200.0) / width))
    table = torch.zeros(length, width)
    table[:, 0::2] = torch.sin(t * rate)
    table[:, 1::2] = torch.cos(t * rate)
    return table


class Attend(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.q = nn.Linear(width, width)
        self.k = nn.Linear(width, width)
        self.v = nn.Linear(width, width)
        self.join = nn.Linear(width, width)

    def forward(self, x):
        a, b, width = x.shape
        q, k, v = (f(x).view(a, b, self.heads, -1) for f in (self.q, self.k, self.v))
        score = torch.einsum("inhd,jnhd->nhij", q, k) / math.sqrt(q.shape[-1])
        weight = torch.softmax(score, dim=-1)
        mixed = torch.einsum("nhij,jnhd->inhd", weight, v)
        return self.join(mixed.reshape(a, b, width))


class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attend = Attend(width, heads)
        self.ff = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x):
        x = x + self.attend(self.n1(x))
        return x + self.ff(self.n2(x))


class SprintModel(nn.Module):
    def __init__(self, n_in=4, width=32, heads=4, depth=2):
        super().__init__()
        self.lift = nn.Linear(n_in, width)
        self.register_buffer("pos", positions(QUARTERS, width))
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(width)
        self.out = nn.Linear(width, 1)

    def forward(self, x):
        h = self.lift(x) + self.pos
        for layer in self.layers:
            h = layer(h)
        return self.out(self.norm(h[:, -1])).squeeze(1)


x, peak = make_records(N_RECORDS)
train_set, val_set = random_split(range(N_RECORDS), [2000, 600])
tr, va = torch.tensor(list(train_set)), torch.tensor(list(val_set))

mean = x[tr].mean(dim=(0, 1))
std = x[tr].std(dim=(0, 1))
x = (x - mean) / std
y_mean, y_std = peak[tr].mean(), peak[tr].std()
target = (peak - y_mean) / y_std

loader = DataLoader(TensorDataset(x[tr], target[tr]), batch_size=50, shuffle=True)
val_loader = DataLoader(TensorDataset(x[va], peak[va]), batch_size=50)

model = SprintModel()
epochs = 9
opt = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-3)
sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=2e-3, total_steps=epochs * len(loader), pct_start=0.2)

for epoch in range(1, epochs + 1):
    model.train()
    seen = 0.0
    for xb, yb in loader:
        loss = nn.functional.mse_loss(model(xb), yb)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        sched.step()
        seen += loss.item() * len(yb)

    model.eval()
    err = 0.0
    with torch.no_grad():
        for xb, yb in val_loader:
            err += (model(xb) * y_std + y_mean - yb).abs().sum().item()
    print(f"epoch {epoch:2d}  train mse {seen / len(tr):.4f}  val MAE {err / len(va):.1f} W")

print(f"constant guess: {(peak[va] - y_mean).abs().mean().item():.1f} W")
