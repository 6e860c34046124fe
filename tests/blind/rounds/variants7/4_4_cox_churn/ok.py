"""Time to contract cancellation with a neural Cox model."""
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn


@dataclass
class Survival:
    x: torch.Tensor
    time: torch.Tensor
    event: torch.Tensor

    def subset(self, idx):
        return Survival(self.x[idx], self.time[idx], self.event[idx])

    def __len__(self):
        return len(self.time)


def contracts(n, seed):
    rng = np.random.default_rng(seed)
    fee = rng.gamma(5, 8, n)
    support_calls = rng.poisson(1.5, n)
    usage = rng.lognormal(2, 0.5, n)
    discount = rng.random(n) < 0.3
    age = rng.normal(44, 13, n)
    complaints = rng.poisson(0.3 + 0.3 * support_calls)
    risk = 0.03 * (fee - 40) + 0.35 * support_calls + 0.5 * complaints - 0.06 * usage - 0.7 * discount
    lifetime = rng.exponential(1, n) ** 0.7 * 24 * np.exp(-0.6 * risk)
    horizon = rng.uniform(4, 60, n)
    x = np.column_stack([fee, support_calls, usage, discount, age, complaints])
    return Survival(torch.tensor(x, dtype=torch.float32),
                    torch.tensor(np.minimum(lifetime, horizon), dtype=torch.float32),
                    torch.tensor(lifetime <= horizon, dtype=torch.float32))


class HazardNet(nn.Module):
    def __init__(self, n_in, hidden=32):
        super().__init__()
        self.fc = nn.Sequential(nn.Linear(n_in, hidden), nn.Tanh(), nn.Dropout(0.1),
                                nn.Linear(hidden, 1, bias=False))

    def forward(self, x):
        return self.fc(x).squeeze(1)


def cox_loss(log_risk, time, event):
    order = time.argsort(descending=True)
    log_risk, event = log_risk[order], event[order]
    at_risk = log_risk.logcumsumexp(0)
    return -((log_risk - at_risk) * event).sum() / event.sum().clamp(min=1)


def concordance(log_risk, time, event):
    earlier = (time[:, None] < time[None, :]) & (event[:, None] > 0)
    diff = log_risk[:, None] - log_risk[None, :]
    good = (diff > 0).float() + 0.5 * (diff == 0).float()
    return (good * earlier).sum().item() / earlier.sum().item()


def main():
    torch.manual_seed(9)
    train, test = contracts(2400, 9), contracts(1000, 10)
    mu, sd = train.x.mean(0), train.x.std(0)
    train.x, test.x = (train.x - mu) / sd, (test.x - mu) / sd
    print(f"{len(train)} contracts, {train.event.mean():.0%} cancelled")
    model = HazardNet(train.x.shape[1])
    opt = torch.optim.Adam(model.parameters(), lr=2e-3, weight_decay=1e-4)
    for epoch in range(12):
        model.train()
        total = 0.0
        for idx in torch.randperm(len(train)).split(120):
            b = train.subset(idx)
            loss = cox_loss(model(b.x), b.time, b.event)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(idx)
        print(f"epoch {epoch:2d} loss {total / len(train):.4f}")
    model.eval()
    with torch.no_grad():
        c = concordance(model(test.x), test.time, test.event)
    print(f"c_index={c:.4f}")


if __name__ == "__main__":
    main()
