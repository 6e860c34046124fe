"""Encoder-decoder GRU for 8-step visitor forecasts, scheduled teacher forcing."""
import numpy as np
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(33)
rng = np.random.default_rng(33)
CONTEXT, HORIZON, HIDDEN, EPOCHS, BATCH = 24, 8, 32, 8, 64


def visitors(n=2200):
    t = np.arange(n)
    drift = np.zeros(n)
    for i in range(1, n):
        drift[i] = 0.985 * drift[i - 1] + rng.normal(0, 0.22)
    return (1.0 * np.sin(2 * np.pi * t / 12) + drift + 0.08 * rng.normal(size=n)).astype(np.float32)


class Seq2Seq(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.encoder = nn.GRU(1, hidden, batch_first=True)
        self.decoder = nn.GRUCell(1, hidden)
        self.readout = nn.Linear(hidden, 1)

    def forward(self, past, future=None, forcing=0.0):
        _, state = self.encoder(past.unsqueeze(-1))
        state, step, outputs = state[0], past[:, -1:], []
        for h in range(HORIZON):
            state = self.decoder(step, state)
            pred = step + self.readout(state)
            outputs.append(pred)
            step = pred
            if future is not None and torch.rand(()) < forcing:
                step = future[:, h:h + 1]
        return torch.cat(outputs, 1)


def cut(series, stride):
    rows = range(0, len(series) - CONTEXT - HORIZON + 1, stride)
    past = torch.tensor(np.stack([series[r:r + CONTEXT] for r in rows]))
    future = torch.tensor(np.stack([series[r + CONTEXT:r + CONTEXT + HORIZON] for r in rows]))
    return past, future


series = visitors()
mean, std = series[:1500].mean(), series[:1500].std()
series = (series - mean) / std
past, future = cut(series[:1500], 2)
val_past, val_future = cut(series[1500:1850], 1)
live_past, live_future = cut(series[1850:], 1)
model = Seq2Seq(HIDDEN)
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)


def validate():
    model.eval()
    with torch.no_grad():
        pred = model(val_past)
    return (pred - val_future).abs().mean().item()


for epoch in range(EPOCHS):
    model.train()
    forcing = max(0.0, 1.0 - epoch / 5)
    losses = []
    for idx in torch.randperm(len(past)).split(BATCH):
        loss = F.mse_loss(model(past[idx], future[idx], forcing), future[idx])
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    print(f"epoch {epoch} forcing {forcing:.1f} train mse {np.mean(losses):.4f} val MAE {validate():.3f}")

model.eval()
with torch.no_grad():
    live = model(live_past)
error = (live - live_future).abs()
naive = (live_past[:, -1:] - live_future).abs().mean()
print(f"roll-out on the next season: MAE {error.mean():.3f}, last step {error[:, -1].mean():.3f} (persistence {naive:.3f})")
