"""Wind farm power, three hours ahead, from the farm and an upwind mast (TCN)."""
import copy

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

HISTORY, HORIZON = 32, 3


def make_series(hours=6000, seed=4):
    rng = np.random.default_rng(seed)
    mast = np.zeros(hours)
    for t in range(1, hours):
        mast[t] = 0.9 * mast[t - 1] + rng.normal() * 0.6
    wind_up = 8 + 2.4 * mast
    farm_wind = np.full(hours, 8.0)
    for t in range(9, hours):
        farm_wind[t] = 1.2 + 0.85 * (0.4 * wind_up[t - 9] + 0.4 * wind_up[t - 8] + 0.2 * wind_up[t - 7])
    hour = np.arange(hours) % 24
    farm_wind = farm_wind + 0.8 * np.sin(2 * np.pi * hour / 24) + rng.normal(size=hours) * 0.35
    power = 100 / (1 + np.exp(-(farm_wind - 8.5) / 1.3)) + rng.normal(size=hours) * 1.5
    feats = np.stack([power, farm_wind, wind_up,
                      np.sin(2 * np.pi * hour / 24), np.cos(2 * np.pi * hour / 24)], axis=0)
    return feats.astype(np.float32)


class Windows(Dataset):
    def __init__(self, feats, target, start, stop):
        self.feats, self.target = feats, target
        self.ends = range(start + HISTORY, stop - HORIZON)

    def __len__(self):
        return len(self.ends)

    def __getitem__(self, i):
        end = self.ends[i]
        return self.feats[:, end - HISTORY:end], self.target[end + HORIZON - 1]


class Chomp(nn.Module):
    """Cuts the surplus frames that two-sided padding leaves behind."""

    def __init__(self, size):
        super().__init__()
        self.size = size

    def forward(self, x):
        return x[..., self.size:]


class Block(nn.Module):
    def __init__(self, c_in, c_out, dilation, kernel=3, dropout=0.05):
        super().__init__()
        pad = (kernel - 1) * dilation
        self.net = nn.Sequential(
            nn.Conv1d(c_in, c_out, kernel, padding=pad, dilation=dilation),
            Chomp(pad), nn.ReLU(), nn.Dropout(dropout),
        )
        self.skip = nn.Conv1d(c_in, c_out, 1) if c_in != c_out else nn.Identity()

    def forward(self, x):
        return torch.relu(self.net(x) + self.skip(x))


class TCN(nn.Module):
    def __init__(self, c_in=5, width=16):
        super().__init__()
        dilations = [1, 2, 4, 8]
        self.blocks = nn.Sequential(*[
            Block(c_in if i == 0 else width, width, d) for i, d in enumerate(dilations)])
        self.head = nn.Linear(width, 1)

    def forward(self, x):
        return self.head(self.blocks(x)[..., -1]).squeeze(1)


@torch.no_grad()
def rmse(model, loader, scale):
    model.eval()
    se = n = 0
    for x, y in loader:
        se += (model(x) - y).square().sum().item()
        n += len(y)
    return (se / n) ** 0.5 * scale


def main():
    torch.manual_seed(1)
    raw = make_series()
    hours = raw.shape[1]
    cut_val, cut_test = int(hours * 0.7), int(hours * 0.85)
    mean = raw[:, :cut_val].mean(1, keepdims=True)
    std = raw[:, :cut_val].std(1, keepdims=True)
    feats = torch.from_numpy((raw - mean) / std)
    power, scale = feats[0], float(std[0, 0])

    train = DataLoader(Windows(feats, power, 0, cut_val), batch_size=96, shuffle=True)
    val = DataLoader(Windows(feats, power, cut_val, cut_test), batch_size=256)
    test = DataLoader(Windows(feats, power, cut_test, hours), batch_size=256)
    p = raw[0, cut_val:cut_test]
    print(f"persistence RMSE {np.sqrt(np.mean((p[HORIZON:] - p[:-HORIZON]) ** 2)):.2f} % of capacity")

    model = TCN()
    loss_fn = nn.MSELoss()
    opt = torch.optim.Adam(model.parameters(), lr=4e-3)
    sched = torch.optim.lr_scheduler.ReduceLROnPlateau(opt, factor=0.5, patience=1)
    best, best_state, bad = float("inf"), None, 0
    for epoch in range(1, 13):
        model.train()
        total = 0.0
        for x, y in train:
            opt.zero_grad()
            loss = loss_fn(model(x), y)
            loss.backward()
            opt.step()
            total += loss.item()
        score = rmse(model, val, scale)
        sched.step(score)
        print(f"epoch {epoch:2d}  train mse {total / len(train):.4f}  val RMSE {score:.2f}")
        if score < best - 1e-3:
            best, best_state, bad = score, copy.deepcopy(model.state_dict()), 0
        else:
            bad += 1
            if bad >= 4:
                print("early stop")
                break
    model.load_state_dict(best_state)
    print(f"best val RMSE {best:.2f}, test RMSE {rmse(model, test, scale):.2f} % of capacity")


if __name__ == "__main__":
    main()
