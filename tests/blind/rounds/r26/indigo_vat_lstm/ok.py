"""Fermented indigo vat: leuco-indigo content of the next laboratory sample from the sensor log and the samples before.

The vats are logged twice a day (redox potential, pH, temperature, dye baths taken); the leuco-indigo content in g/l comes
from titration every few days. A small LSTM sees the last days before a sample is taken.
"""
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SEED = 8
STEPS_PER_DAY = 2
WINDOW = 24
EPOCHS = 12
BATCH = 64
LR = 4e-3


def run_vat(rng, days=160):
    n = days * STEPS_PER_DAY
    t = np.arange(n)
    temperature = 33 + 2.5 * np.sin(2 * np.pi * t / (STEPS_PER_DAY * rng.uniform(20, 40)) + rng.uniform(0, 6)) + 0.4 * rng.normal(size=n)
    baths = (rng.random(n) < 0.12) * rng.integers(1, 4, n)
    bacteria, oxidised, leuco = 0.5, 4.0, 2.0
    out = np.zeros((n, 4))
    truth = np.zeros(n)
    for i in range(n):
        bacteria += 0.05 * (0.5 + 0.08 * (temperature[i] - 33) - bacteria) + 0.07 * rng.normal()
        bacteria = np.clip(bacteria, 0.05, 1.2)
        reduced = 0.10 * bacteria * oxidised
        lost = 0.025 * leuco + 0.10 * baths[i] * leuco * rng.uniform(0.3, 1.7)
        oxidised += 0.5 * lost - reduced + (0.9 if oxidised + leuco < 5 else 0.0)
        leuco += reduced - lost
        truth[i] = leuco
        redox = -480 - 130 * bacteria + 12 * rng.normal()
        ph = 10.8 - 0.5 * bacteria + 0.05 * rng.normal()
        out[i] = redox, ph, temperature[i], baths[i]
    return out, truth


def samples_of_vat(rng):
    log, truth = run_vat(rng)
    at = np.cumsum(rng.integers(5, 10, 60)) + 10
    at = at[at < len(log)]
    titration = truth[at] * (1 + 0.02 * rng.normal(size=len(at)))
    steps = np.arange(len(log))
    last = np.maximum(np.searchsorted(at, steps, side="right") - 1, 0)
    content = titration[last]
    age = np.clip(steps - at[last], 0, None) / STEPS_PER_DAY
    channels = np.column_stack([log, content, age])
    windows, targets = [], []
    for k in range(1, len(at)):
        if at[k] - WINDOW >= at[0]:
            windows.append(channels[at[k] - WINDOW:at[k]])
            targets.append(titration[k])
    return windows, targets


def collect(rng, vats):
    windows, targets = [], []
    for _ in range(vats):
        w, y = samples_of_vat(rng)
        windows += w
        targets += y
    return torch.tensor(np.array(windows), dtype=torch.float32), torch.tensor(targets, dtype=torch.float32)


class VatModel(nn.Module):
    def __init__(self, channels, hidden=32):
        super().__init__()
        self.rnn = nn.LSTM(channels, hidden, batch_first=True)
        self.head = nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1))

    def forward(self, x):
        _, (h, _) = self.rnn(x)
        return self.head(h[-1])[:, 0]


def main():
    torch.manual_seed(SEED)
    rng = np.random.default_rng(SEED)
    x_train, y_train = collect(rng, 40)
    x_val, y_val = collect(rng, 12)
    x_mean, x_std = x_train.mean((0, 1)), x_train.std((0, 1))
    y_mean, y_std = y_train.mean(), y_train.std()
    x_train, x_val = (x_train - x_mean) / x_std, (x_val - x_mean) / x_std

    model = VatModel(x_train.shape[2])
    opt = torch.optim.Adam(model.parameters(), lr=LR)
    loader = DataLoader(TensorDataset(x_train, (y_train - y_mean) / y_std), BATCH, shuffle=True)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, EPOCHS * len(loader))
    for epoch in range(1, EPOCHS + 1):
        model.train()
        total = 0.0
        for x, y in loader:
            loss = nn.functional.mse_loss(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            sched.step()
            total += loss.item()
        model.eval()
        with torch.no_grad():
            guess = model(x_val) * y_std + y_mean
        mae = (guess - y_val).abs().mean()
        if epoch % 3 == 0:
            print(f"epoch {epoch:2d}  train mse {total / len(loader):.4f}  val MAE {mae:.3f} g/l  (mean guess {(y_val - y_mean).abs().mean():.3f})")
    return model, (x_mean, x_std, y_mean, y_std)


if __name__ == "__main__":
    main()
