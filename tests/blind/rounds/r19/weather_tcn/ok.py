"""Six-hour-ahead temperature at a station from the last day of observations."""
import copy

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

HIST, LEAD = 24, 6


def station_series(n_hours, seed):
    rng = np.random.default_rng(seed)
    h = np.arange(n_hours)
    cloud, front, wind = np.zeros(n_hours), np.zeros(n_hours), np.zeros(n_hours)
    for i in range(1, n_hours):
        cloud[i] = 0.95 * cloud[i - 1] + rng.normal(0, 0.3)
        wind[i] = 0.9 * wind[i - 1] + rng.normal(0, 0.4)
        front[i] = 0.985 * front[i - 1] + rng.normal(0, 0.5) - 0.12 * np.tanh(wind[i]) * (1 + np.tanh(cloud[i]))
    sun = np.maximum(0, np.sin(2 * np.pi * (h % 24 - 6) / 24)) * (1 - 0.6 / (1 + np.exp(-2 * cloud)))
    season = 8 * np.sin(2 * np.pi * h / (24 * 365))
    temp = np.zeros(n_hours)
    for i in range(1, n_hours):
        temp[i] = temp[i - 1] + 0.2 * (season[i] + front[i] + 12 * sun[i] - temp[i - 1])
    temp += rng.normal(0, 0.3, n_hours)
    pressure = 1013 - 1.5 * np.roll(front, -6) + rng.normal(0, 0.5, n_hours)
    feats = np.column_stack([temp, pressure, cloud, wind,
                             np.sin(2 * np.pi * h / 24), np.cos(2 * np.pi * h / 24)])
    return feats[:-6].astype(np.float32)


def windows(f, lo, hi):
    starts = np.arange(lo, hi - HIST - LEAD)
    x = np.stack([f[s:s + HIST] for s in starts])
    y = np.stack([f[s + HIST + LEAD - 1, 0] for s in starts])
    return torch.from_numpy(x), torch.from_numpy(y)


class Forecaster(nn.Module):
    def __init__(self, n_feat, width=32):
        super().__init__()
        layers = []
        for i, dilation in enumerate((1, 2, 4)):
            layers += [nn.Conv1d(n_feat if i == 0 else width, width, 3, padding=dilation, dilation=dilation),
                       nn.BatchNorm1d(width), nn.ReLU()]
        self.tcn = nn.Sequential(*layers)
        self.head = nn.Sequential(nn.Dropout(0.1), nn.Linear(width * 6, 1))

    def forward(self, x):
        h = self.tcn(x.transpose(1, 2))
        return self.head(h[:, :, -6:].flatten(1)).squeeze(-1)


class EarlyStopping:
    def __init__(self, patience):
        self.patience = patience
        self.best = float("inf")
        self.bad_epochs = 0
        self.state = None

    def update(self, value, model):
        if value < self.best:
            self.best, self.bad_epochs = value, 0
            self.state = copy.deepcopy(model.state_dict())
        else:
            self.bad_epochs += 1
        return self.bad_epochs >= self.patience


def rmse(model, loader):
    model.eval()
    sq, n = 0.0, 0
    with torch.no_grad():
        for x, y in loader:
            sq += ((model(x) - y) ** 2).sum().item()
            n += len(y)
    return (sq / n) ** 0.5


def main():
    torch.manual_seed(2)
    f = station_series(24 * 365, seed=2)
    n_tr, n_va = int(len(f) * 0.6), int(len(f) * 0.8)
    mu, sd = f[:n_tr].mean(0), f[:n_tr].std(0)
    f = (f - mu) / sd
    x_tr, y_tr = windows(f, 0, n_tr)
    x_va, y_va = windows(f, n_tr, n_va)
    x_te, y_te = windows(f, n_va, len(f))
    persistence = torch.sqrt(((x_te[:, -1, 0] - y_te) ** 2).mean()).item() * sd[0]
    print(f"train {len(x_tr)} val {len(x_va)} test {len(x_te)}  persistence rmse {persistence:.3f} C")

    val_loader = DataLoader(TensorDataset(x_va, y_va), batch_size=100)
    test_loader = DataLoader(TensorDataset(x_te, y_te), batch_size=100)
    model = Forecaster(f.shape[1])
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    stopper = EarlyStopping(patience=8)
    for epoch in range(30):
        model.train()
        picked = torch.randperm(len(x_tr))[:1024]
        for b in picked.split(64):
            loss = nn.functional.mse_loss(model(x_tr[b]), y_tr[b])
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
        val = rmse(model, val_loader) * sd[0]
        print(f"epoch {epoch:2d} val rmse {val:.3f} C")
        if stopper.update(val, model):
            print("early stop")
            break
    model.load_state_dict(stopper.state)
    print(f"test rmse {rmse(model, test_loader) * sd[0]:.4f} C")


if __name__ == "__main__":
    main()
