"""Next-hour electricity load forecast with a GRU over the last 48 hours."""
import math
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
rng = np.random.default_rng(0)
CONTEXT, HIDDEN, EPOCHS = 48, 32, 6


def load_series(hours=24 * 120):
    t = np.arange(hours)
    day = np.sin(2 * math.pi * t / 24 - 1.0) + 0.4 * np.sin(4 * math.pi * t / 24)
    week = 0.4 * np.cos(2 * math.pi * t / 168)
    noise = np.zeros(hours)
    for i in range(1, hours):
        noise[i] = 0.7 * noise[i - 1] + rng.normal(0, 0.25)
    return (50 + 12 * day + 6 * week + 5 * noise).astype(np.float32)


def windows(values, context):
    inputs, targets = [], []
    for end in range(context, len(values)):
        inputs.append(values[end - context:end])
        targets.append(values[end - 1])
    return torch.tensor(np.stack(inputs)).unsqueeze(-1), torch.tensor(np.array(targets))


class LoadGRU(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.gru = nn.GRU(1, hidden, batch_first=True)
        self.out = nn.Linear(hidden, 1)

    def forward(self, x):
        states, _ = self.gru(x)
        return self.out(states[:, -1]).squeeze(-1)


series = load_series()
cut, cut_test = int(len(series) * 0.7), int(len(series) * 0.85)
mean, std = series[:cut].mean(), series[:cut].std()
scaled = (series - mean) / std
train = TensorDataset(*windows(scaled[:cut], CONTEXT))
val_x, val_y = windows(scaled[cut:cut_test], CONTEXT)
loader = DataLoader(train, batch_size=64, shuffle=True)

model = LoadGRU(HIDDEN)
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
criterion = nn.MSELoss()


def validate():
    model.eval()
    with torch.no_grad():
        pred = model(val_x)
    return (pred - val_y).abs().mean().item() * std


for epoch in range(EPOCHS):
    model.train()
    running = 0.0
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        running += loss.item() * len(x)
    print(f"epoch {epoch} train mse {running / len(train):.4f} val MAE {validate():.2f} MW")

# replay of the last weeks: at every hour, forecast the coming one from what is known
model.eval()
live = scaled[cut_test:]
with torch.no_grad():
    history = torch.tensor(np.stack([live[h - CONTEXT:h] for h in range(CONTEXT, len(live))])).unsqueeze(-1)
    forecast = model(history).numpy() * std + mean
actual = live[CONTEXT:] * std + mean
print(f"replay MAE {np.abs(forecast - actual).mean():.2f} MW, persistence {np.abs(np.diff(actual)).mean():.2f} MW")
