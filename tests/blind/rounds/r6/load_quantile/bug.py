"""Probabilistic load forecast for a substation (P10 / P50 / P90)."""
import numpy as np
import torch
from torch import nn

QUANTILES = (0.1, 0.5, 0.9)
LAGS = 48
HORIZON = 24
EPOCHS = 10
BATCH = 64
LR = 2e-3
SEED = 4


def substation_series(days=300, seed=SEED):
    rng = np.random.default_rng(seed)
    t = np.arange(days * 24)
    temp = 16 + 4 * np.sin(2 * np.pi * (t - 9) / 24)
    temp = temp + np.repeat(rng.normal(0, 2, days), 24)
    shape = 30 + 9 * np.sin(2 * np.pi * (t - 7) / 24) + 4 * np.sin(4 * np.pi * (t - 3) / 24)
    weekend = ((t // 24) % 7 >= 5) * 6.0
    spread = 0.8 + 1.6 * ((t % 24 > 16) & (t % 24 < 21))
    load = shape - weekend + 0.5 * np.abs(temp - 18) + spread * rng.normal(0, 1.2, len(t))
    return load.astype(np.float32), temp.astype(np.float32)


def build_samples(load, temp):
    feats, targets = [], []
    for end in range(LAGS, len(load) - HORIZON, 2):
        k = end + HORIZON - 1
        cal = [np.sin(2 * np.pi * k / 24), np.cos(2 * np.pi * k / 24), float((k // 24) % 7 >= 5)]
        feats.append(np.concatenate([load[end - LAGS:end], [temp[k]], cal]))
        targets.append(load[k])
    return np.array(feats, np.float32), np.array(targets, np.float32)


class QuantileMLP(nn.Module):
    def __init__(self, n_in, n_q):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(n_in, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(),
                                 nn.Linear(32, n_q))

    def forward(self, x):
        return self.net(x)


def pinball_loss(pred, target, quantiles):
    err = pred - target.unsqueeze(1)
    return torch.maximum(quantiles * err, (quantiles - 1) * err).mean()


@torch.no_grad()
def report(model, x, y):
    model.eval()
    q = model(x)
    inside = ((y >= q[:, 0]) & (y <= q[:, 2])).float().mean().item()
    below = (y.unsqueeze(1) <= q).float().mean(0).tolist()
    mae = (q[:, 1] - y).abs().mean().item()
    return inside, below, mae


def main():
    torch.manual_seed(SEED)
    x, y = build_samples(*substation_series())
    gap = (LAGS + HORIZON) // 2
    cut = int(0.8 * len(x))
    mu, sd = x[:cut].mean(0), x[:cut].std(0) + 1e-6
    y_mu, y_sd = y[:cut].mean(), y[:cut].std()
    x, y = torch.from_numpy((x - mu) / sd), torch.from_numpy((y - y_mu) / y_sd)
    x_tr, y_tr, x_va, y_va = x[:cut - gap], y[:cut - gap], x[cut:], y[cut:]

    model = QuantileMLP(x.shape[1], len(QUANTILES))
    opt = torch.optim.AdamW(model.parameters(), lr=LR, weight_decay=1e-2)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, EPOCHS)
    quantiles = torch.tensor(QUANTILES)
    for epoch in range(EPOCHS):
        model.train()
        losses = []
        for idx in torch.randperm(len(x_tr)).split(BATCH):
            opt.zero_grad()
            loss = pinball_loss(model(x_tr[idx]), y_tr[idx], quantiles)
            loss.backward()
            opt.step()
            losses.append(loss.item())
        sched.step()
        inside, below, mae = report(model, x_va, y_va)
        print(f"epoch {epoch + 1:2d} pinball {np.mean(losses):.4f} | P10-P90 coverage {inside:.2f} "
              f"| share below {[round(b, 2) for b in below]} | P50 MAE {mae * y_sd:.2f} MW")


if __name__ == "__main__":
    main()
