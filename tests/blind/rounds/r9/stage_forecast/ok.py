"""Four-hour-ahead stage forecast for a single gauge from its own level and catchment rain."""
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SEED = 11
HOURS = 4200
LOOKBACK = 24
LEAD = 4
KERNEL = 9
EPOCHS = 7
BATCH = 64


def simulate_gauge(hours, rng):
    storms = rng.random(hours) < 0.03
    rain = np.zeros(hours)
    for t in np.flatnonzero(storms):
        n = rng.integers(2, 9)
        rain[t:t + n] += rng.gamma(2.0, 1.5)
    fast, slow = 0.0, 4.0
    level = np.zeros(hours)
    for t in range(hours):
        fast = 0.80 * fast + 0.20 * rain[t]
        slow = 0.992 * slow + 0.010 * rain[t]
        level[t] = 0.6 + 0.25 * fast + 0.15 * slow
    level += 0.06 * rng.standard_normal(hours)
    return rain.astype(np.float32), level.astype(np.float32)


def smooth(level, width):
    """Running mean that takes the wave slap out of the pressure sensor."""
    pad = np.pad(level, (width - 1, 0), mode="edge")
    return np.convolve(pad, np.ones(width) / width, mode="valid").astype(np.float32)


def make_windows(feats, level, lookback, lead):
    xs, ys = [], []
    for t in range(lookback, len(level) - lead):
        xs.append(feats[t - lookback + 1:t + 1])
        ys.append(level[t + lead])
    return torch.tensor(np.stack(xs)), torch.tensor(np.array(ys, dtype=np.float32))


class StageNet(nn.Module):
    def __init__(self, n_feat, hidden=24):
        super().__init__()
        self.rnn = nn.GRU(n_feat, hidden, batch_first=True)
        self.head = nn.Linear(hidden, 1)

    def forward(self, x):
        out, _ = self.rnn(x)
        return self.head(out[:, -1]).squeeze(-1)


def nse(model, x, y):
    model.eval()
    with torch.no_grad():
        sim = model(x)
    return 1 - ((sim - y) ** 2).sum().item() / ((y - y.mean()) ** 2).sum().item()


def main():
    torch.manual_seed(SEED)
    rng = np.random.default_rng(SEED)
    rain, level = simulate_gauge(HOURS, rng)

    feats = np.stack([rain, smooth(level, KERNEL)], axis=1)
    cut = int(0.75 * HOURS)
    mu, sd = feats[:cut].mean(0), feats[:cut].std(0)
    y_mu, y_sd = level[:cut].mean(), level[:cut].std()
    feats = (feats - mu) / sd
    target = (level - y_mu) / y_sd

    x_train, y_train = make_windows(feats[:cut], target[:cut], LOOKBACK, LEAD)
    gap = cut + LOOKBACK
    x_val, y_val = make_windows(feats[gap:], target[gap:], LOOKBACK, LEAD)
    loader = DataLoader(TensorDataset(x_train, y_train), batch_size=BATCH, shuffle=True)

    model = StageNet(feats.shape[1])
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, EPOCHS)
    loss_fn = nn.MSELoss()
    for epoch in range(EPOCHS):
        model.train()
        total = 0.0
        for xb, yb in loader:
            opt.zero_grad()
            loss = loss_fn(model(xb), yb)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            total += loss.item() * len(xb)
        sched.step()
        print(f"epoch {epoch} train mse {total / len(x_train):.4f} val NSE {nse(model, x_val, y_val):.4f}")

    naive = 1 - ((x_val[:, -1, 1] * sd[1] + mu[1] - (y_val * y_sd + y_mu)) ** 2).sum().item() / (
        ((y_val - y_val.mean()) * y_sd) ** 2).sum().item()
    print(f"lead {LEAD} h: val NSE {nse(model, x_val, y_val):.4f}, persistence {naive:.4f}")


if __name__ == "__main__":
    main()
