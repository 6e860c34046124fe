import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset, random_split

# AIS tracks: from the last 16 position reports, predict the speed over ground (knots) in 30 minutes.

WINDOW = 16


def simulate_track(rng, n=WINDOW + 1):
    kind = rng.integers(0, 3)
    cruise = [14.0, 9.0, 20.0][kind] + rng.normal(0, 1.5)
    course = rng.uniform(0, 2 * np.pi)
    turn = rng.normal(0, 0.04)
    slowdown = rng.uniform(0.75, 1.08)
    speed = cruise
    x = y = 0.0
    rows = []
    for _ in range(n):
        speed = max(0.3, speed * slowdown ** 0.25 + rng.normal(0, 0.15))
        course += turn + rng.normal(0, 0.02)
        x += speed * np.sin(course) * 0.1
        y += speed * np.cos(course) * 0.1
        rows.append((x, y, speed, course))
    rows = np.array(rows)
    future = max(0.3, rows[WINDOW - 1, 2] * slowdown ** 1.5)
    feats = np.stack([np.diff(rows[:, 0]), np.diff(rows[:, 1]),
                      np.sin(rows[:-1, 3]), np.cos(rows[:-1, 3])], 1)
    feats[:, :2] += rng.normal(0, 0.03, (WINDOW, 2))
    return feats.astype(np.float32), np.float32(future)


class TrackDataset(Dataset):
    def __init__(self, n, seed):
        rng = np.random.default_rng(seed)
        pairs = [simulate_track(rng) for _ in range(n)]
        self.x = torch.from_numpy(np.stack([p[0] for p in pairs]))
        self.y = torch.from_numpy(np.stack([p[1] for p in pairs]))

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


class SpeedGRU(nn.Module):
    def __init__(self, n_feat=4, hidden=48):
        super().__init__()
        self.gru = nn.GRU(n_feat, hidden, batch_first=True)
        self.fc = nn.Sequential(nn.Linear(hidden, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, x):
        out, _ = self.gru(x)
        return self.fc(out[:, -1])


def pseudo_huber(pred, target, delta=1.0):
    r = (pred - target) / delta
    return (delta ** 2 * (torch.sqrt(1 + r ** 2) - 1)).mean()


def evaluate(model, loader, mu, sd):
    model.eval()
    preds, trues = [], []
    with torch.no_grad():
        for x, y in loader:
            preds.append(model(x).numpy().ravel() * sd + mu)
            trues.append(y.numpy())
    p, t = np.concatenate(preds), np.concatenate(trues)
    return np.abs(p - t).mean(), 1 - ((p - t) ** 2).sum() / ((t - t.mean()) ** 2).sum()


def train(model, train_dl, val_dl, mu, sd, epochs=12, lr=3e-3):
    opt = torch.optim.Adam(model.parameters(), lr=lr)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, epochs)
    for ep in range(epochs):
        model.train()
        tot = 0.0
        for x, y in train_dl:
            y = (y - mu) / sd
            opt.zero_grad()
            pred = model(x)
            loss = pseudo_huber(pred, y)
            loss.backward()
            opt.step()
            tot += loss.item() * len(x)
        sched.step()
        mae, r2 = evaluate(model, val_dl, mu, sd)
        print(f"Epoch {ep + 1}/{epochs} - loss: {tot / len(train_dl.dataset):.4f} - val_mae: {mae:.3f} kn - val_r2: {r2:.3f}")


torch.manual_seed(4)
full = TrackDataset(3600, seed=4)
train_set, val_set, test_set = random_split(full, [2800, 400, 400], generator=torch.Generator().manual_seed(4))
y_train = full.y[train_set.indices]
mu, sd = y_train.mean().item(), y_train.std().item()
train_dl = DataLoader(train_set, batch_size=40, shuffle=True)
val_dl = DataLoader(val_set, batch_size=200)
test_dl = DataLoader(test_set, batch_size=200)

model = SpeedGRU()
train(model, train_dl, val_dl, mu, sd)
mae, r2 = evaluate(model, test_dl, mu, sd)
print(f"test MAE {mae:.3f} kn, R2 {r2:.4f}")
