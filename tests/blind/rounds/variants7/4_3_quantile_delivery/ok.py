"""Delivery time quantiles (10/50/90 %) from order features."""
import numpy as np
import pandas as pd
import torch
from sklearn.metrics import mean_pinball_loss
from torch import nn

QUANTILES = (0.1, 0.5, 0.9)
NUMERIC = ["distance_km", "items", "queue", "rain_mm", "hour_sin", "hour_cos", "courier_rating"]


def orders(n, seed):
    rng = np.random.default_rng(seed)
    hour = rng.uniform(10, 23, n)
    peak = np.exp(-0.5 * ((hour - 19) / 1.6) ** 2)
    df = pd.DataFrame({
        "distance_km": rng.gamma(2.5, 1.3, n),
        "items": rng.poisson(2.5, n) + 1,
        "queue": rng.poisson(3 + 8 * peak),
        "rain_mm": np.where(rng.random(n) < 0.3, rng.exponential(2, n), 0),
        "hour_sin": np.sin(hour * np.pi / 12),
        "hour_cos": np.cos(hour * np.pi / 12),
        "courier_rating": np.clip(rng.normal(4.4, 0.3, n), 3, 5),
    })
    base = 8 + 3.1 * df.distance_km + 0.8 * df["items"] + 0.9 * df.queue + 1.2 * df.rain_mm
    spread = 2 + 0.5 * df.queue + 0.8 * df.rain_mm
    df["minutes"] = base + spread * rng.gumbel(0, 1, n) - 5 * (df.courier_rating - 4.4)
    return df


class QuantileNet(nn.Module):
    def __init__(self, n_in, quantiles):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(n_in, 48), nn.GELU(), nn.Linear(48, 48), nn.GELU())
        self.heads = nn.ModuleList(nn.Linear(48, 1) for _ in quantiles)

    def forward(self, x):
        h = self.trunk(x)
        return torch.cat([head(h) for head in self.heads], dim=1)


def pinball(pred, target, quantiles):
    q = torch.tensor(quantiles)
    diff = target.unsqueeze(1) - pred
    return torch.maximum(q * diff, (q - 1) * diff).mean()


def batches(x, y, size):
    for idx in torch.randperm(len(x)).split(size):
        yield x[idx], y[idx]


def main():
    torch.manual_seed(14)
    train, test = orders(4000, 14), orders(1500, 15)
    mu, sd = train.mean(), train.std()
    to_x = lambda d: torch.tensor(((d[NUMERIC] - mu[NUMERIC]) / sd[NUMERIC]).values, dtype=torch.float32)
    x, xt = to_x(train), to_x(test)
    y = torch.tensor(((train.minutes - mu.minutes) / sd.minutes).values, dtype=torch.float32)
    model = QuantileNet(len(NUMERIC), QUANTILES)
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    for epoch in range(10):
        model.train()
        losses = []
        for xb, yb in batches(x, y, 80):
            opt.zero_grad()
            loss = pinball(model(xb), yb, QUANTILES)
            loss.backward()
            opt.step()
            losses.append(loss.item())
        print(f"epoch {epoch:2d} loss {np.mean(losses):.4f}")
    model.eval()
    with torch.no_grad():
        pred = model(xt).numpy() * sd.minutes + mu.minutes
    score = np.mean([mean_pinball_loss(test.minutes, pred[:, i], alpha=q) for i, q in enumerate(QUANTILES)])
    print(f"test_pinball={score:.4f}")


if __name__ == "__main__":
    main()
