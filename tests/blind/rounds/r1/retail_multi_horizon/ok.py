"""Weekly sales, one output head per horizon (1, 2, 4, 8 weeks) on a shared encoder."""
import numpy as np
import torch
from torch import nn

torch.manual_seed(14)
rng = np.random.default_rng(14)
HORIZONS, CONTEXT, EPOCHS, BATCH = (1, 2, 4, 8), 26, 14, 64


def stores(n=60, weeks=110):
    t = np.arange(weeks)
    level = rng.normal(100, 20, (n, 1))
    season = rng.uniform(5, 25, (n, 1)) * np.sin(2 * np.pi * (t + rng.integers(0, 26, (n, 1))) / 26)
    walk = rng.normal(0, 2.0, (n, weeks)).cumsum(1)
    return (level + season + walk + rng.normal(0, 2, (n, weeks))).astype(np.float32)


class MultiHorizon(nn.Module):
    def __init__(self, context, width=64):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(context, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.heads = nn.ModuleDict({str(h): nn.Linear(width, 1) for h in HORIZONS})

    def forward(self, x):
        z = self.encoder(x)
        return {h: self.heads[str(h)](z).squeeze(1) for h in HORIZONS}


def windows(sales, first, last):
    """forecast origins first..last-1; everything is expressed relative to the last known week"""
    xs, ys, scale = [], {h: [] for h in HORIZONS}, 20.0
    for origin in range(first, last):
        base = sales[:, origin - 1]
        xs.append((sales[:, origin - CONTEXT:origin] - base[:, None]) / scale)
        for h in HORIZONS:
            ys[h].append((sales[:, origin + h - 1] - base) / scale)
    return torch.tensor(np.concatenate(xs)), {h: torch.tensor(np.concatenate(v)) for h, v in ys.items()}


sales = stores()
x_train, y_train = windows(sales, CONTEXT, 76)
x_val, y_val = windows(sales, 84, 102)
model = MultiHorizon(CONTEXT)
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
criterion = nn.L1Loss()

for epoch in range(EPOCHS):
    model.train()
    running, batches = 0.0, 0
    for idx in torch.randperm(len(x_train)).split(BATCH):
        out = model(x_train[idx])
        loss = 0.0
        for h in HORIZONS:
            loss = loss + criterion(out[h], y_train[h][idx]) / len(HORIZONS)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        running += loss.item()
        batches += 1
    if epoch % 4 == 1:
        print(f"epoch {epoch:2d} loss {running / batches:.4f}")

model.eval()
with torch.no_grad():
    forecast = model(x_val)
mae, naive = [], []
for h in HORIZONS:
    mae.append((forecast[h] - y_val[h]).abs().mean().item() * 20)
    naive.append(y_val[h].abs().mean().item() * 20)
    print(f"horizon {h}w val MAE {mae[-1]:.2f} (last value {naive[-1]:.2f})")
print(f"mean val MAE {np.mean(mae):.2f} (last value {np.mean(naive):.2f})")
