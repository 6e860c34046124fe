"""Recognise kayak strokes from two seconds of a six-axis IMU on the paddle shaft."""
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

STROKES = ["forward_left", "forward_right", "sweep_left", "sweep_right", "brace_left", "brace_right", "drift"]
RATE, SAMPLES = 40, 80
# axes: surge, sway, heave acceleration in m/s2; roll, pitch, yaw rate in rad/s
MIRROR_SIGN = np.array([1, -1, 1, -1, 1, -1], dtype=np.float32)[:, None]


def paddle(kind, rng):
    t = np.arange(SAMPLES) / RATE
    name = STROKES[kind]
    side = -1.0 if name.endswith("left") else 1.0
    start = rng.uniform(0.2, 0.7)
    pull = np.exp(-0.5 * ((t - start - 0.35) / rng.uniform(0.14, 0.2)) ** 2)
    turn = np.gradient(pull, t) / 5
    power = rng.uniform(0.7, 1.4)
    x = np.zeros((6, SAMPLES))
    if name.startswith("forward"):
        x[0], x[1], x[3], x[5] = 4 * pull, 1.2 * side * pull, 1.5 * side * turn, 0.5 * side * pull
    elif name.startswith("sweep"):
        x[0], x[1], x[3], x[5] = 2 * pull, 2.2 * side * turn, 0.4 * side * pull, 1.6 * side * pull
    elif name.startswith("brace"):
        x[2], x[1], x[3], x[4] = 3 * turn, 1.5 * side * pull, -1.8 * side * pull, 0.6 * pull
    x *= power
    swell = rng.uniform(0, 6.28, 6)[:, None]
    x += np.array([0.3, 0.4, 0.6, 0.35, 0.2, 0.2])[:, None] * np.sin(2 * np.pi * rng.uniform(0.3, 0.8) * t + swell)
    x += rng.normal(0, 1, (6, SAMPLES)) * np.array([1.5, 1.5, 1.5, 0.7, 0.7, 0.7])[:, None]
    return x.astype(np.float32)


class StrokeWindows(Dataset):
    def __init__(self, signals, strokes, scale, augment=False, seed=0):
        self.signals, self.strokes, self.scale = signals, strokes, scale
        self.augment = augment
        self.rng = np.random.default_rng(seed)

    def __len__(self):
        return len(self.strokes)

    def __getitem__(self, i):
        x, stroke = self.signals[i], self.strokes[i]
        if self.augment:
            x = np.roll(x, self.rng.integers(-6, 7), axis=1)
            x = x * np.float32(self.rng.uniform(0.9, 1.1))
            if self.rng.random() < 0.5:
                x = x * MIRROR_SIGN
        return torch.from_numpy(x / self.scale), int(stroke)


class StrokeNet(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        layers, c = [], 6
        for k in (7, 5, 5):
            layers += [nn.Conv1d(c, width, k, padding=k // 2), nn.BatchNorm1d(width), nn.ReLU(), nn.MaxPool1d(2)]
            c = width
        self.body = nn.Sequential(*layers)
        self.head = nn.Linear(width * 2, len(STROKES))

    def forward(self, x):
        h = self.body(x)
        return self.head(torch.cat([h.mean(2), h.amax(2)], dim=1))


class Trainer:
    def __init__(self, model, train_set, val_set):
        self.model = model
        self.train_loader = DataLoader(train_set, batch_size=32, shuffle=True)
        self.val_loader = DataLoader(val_set, batch_size=100)
        self.optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)

    def epoch(self):
        self.model.train()
        total, n = 0.0, 0
        for x, y in self.train_loader:
            loss = nn.functional.cross_entropy(self.model(x), y)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            total, n = total + loss.item() * len(y), n + len(y)
        return total / n

    def accuracy(self):
        self.model.eval()
        right = n = 0
        with torch.no_grad():
            for x, y in self.val_loader:
                right += (self.model(x).argmax(1) == y).sum().item()
                n += len(y)
        return right / n


def main():
    rng = np.random.default_rng(52)
    torch.manual_seed(52)
    kinds = rng.integers(0, len(STROKES), 1000)
    signals = np.stack([paddle(k, rng) for k in kinds])
    scale = signals[:700].std(axis=(0, 2))[:, None]
    train_set = StrokeWindows(signals[:700], kinds[:700], scale, augment=True)
    val_set = StrokeWindows(signals[700:], kinds[700:], scale)
    trainer = Trainer(StrokeNet(), train_set, val_set)
    for e in range(1, 11):
        loss = trainer.epoch()
        print(f"epoch {e:2d}  train loss {loss:.3f}  val accuracy {trainer.accuracy():.3f}")


if __name__ == "__main__":
    main()
