"""Forecast of the next value of several coupled series with one self-attention layer."""

import math

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(3)


class SelfAttention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.q = nn.Linear(width, width)
        self.k = nn.Linear(width, width)
        self.v = nn.Linear(width, width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        B, L, _ = x.shape
        H = self.heads
        queries = self.q(x).view(B, L, H, -1)
        keys = self.k(x).view(B, L, H, -1)
        values = self.v(x).view(B, L, H, -1)

        queries = queries.view(B, H, L, -1)
        keys = keys.view(B, H, L, -1)
        values = values.view(B, H, L, -1)

        scores = queries @ keys.transpose(-2, -1) / math.sqrt(queries.shape[-1])
        mixed = torch.softmax(scores, dim=-1) @ values
        return self.out(mixed.reshape(B, L, -1))


class Forecaster(nn.Module):
    def __init__(self, series, length, width=32):
        super().__init__()
        self.lift = nn.Linear(series, width)
        self.position = nn.Parameter(torch.randn(length, width) * 0.1)
        self.attention = SelfAttention(width, heads=4)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, series)

    def forward(self, x):
        h = self.lift(x) + self.position
        h = h + self.attention(self.norm(h))
        return self.head(h[:, -1])


def windows(count, length=24, series=3):
    """The next value repeats what was seen where the marker series was 1."""
    x = torch.randn(count, length, series)
    x[:, :, 2] = 0
    at = torch.randint(0, length - 1, (count,))
    x[torch.arange(count), at, 2] = 3
    return x, x[torch.arange(count), at]


train = DataLoader(TensorDataset(*windows(4000)), batch_size=64, shuffle=True)
valid = DataLoader(TensorDataset(*windows(500)), batch_size=250)
model = Forecaster(series=3, length=24)
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)

for epoch in range(6):
    model.train()
    for x, y in train:
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        error = sum(nn.functional.mse_loss(model(x), y).item() for x, y in valid) / len(valid)
    print(f"epoch {epoch} valid mse {error:.4f}")
