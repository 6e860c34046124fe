import numpy as np
import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(13)


def recordings(n, seed):
    """(samples, time, channels): vibration in mm, temperature in degrees, pressure in kPa."""
    r = np.random.default_rng(seed)
    t = np.linspace(0, 1, 40)
    label = r.integers(0, 3, n)
    freq = np.array([2.0, 4.0, 6.5])[label][:, None]
    vib = 0.004 * np.sin(2 * np.pi * (freq * t + r.random((n, 1)))) + 0.003 * r.normal(size=(n, 40))
    temp = 35 + 4 * r.normal(size=(n, 1)) + 0.5 * r.normal(size=(n, 40))
    press = 400 + 60 * r.normal(size=(n, 1)) + 15 * r.normal(size=(n, 40))
    return np.stack([vib, temp, press], axis=2).astype(np.float32), label


class Recordings(Dataset):
    def __init__(self, arrays, stats=None):
        raw, label = arrays
        if stats is None:
            stats = raw.mean(axis=(0, 2), keepdims=True), raw.std(axis=(0, 2), keepdims=True)
        self.stats = stats
        self.x = torch.from_numpy((raw - stats[0]) / stats[1])
        self.y = torch.from_numpy(label)

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.x[i].T, self.y[i]


train = Recordings(recordings(1500, 0))
valid = Recordings(recordings(400, 1), stats=train.stats)
train_dl = DataLoader(train, batch_size=50, shuffle=True)
valid_dl = DataLoader(valid, batch_size=100)

model = nn.Sequential(
    nn.Conv1d(3, 16, 7, padding=3), nn.ReLU(), nn.MaxPool1d(2),
    nn.Conv1d(16, 24, 5, padding=2), nn.ReLU(), nn.AdaptiveMaxPool1d(2),
    nn.Flatten(), nn.Linear(48, 3),
)
opt = torch.optim.Adam(model.parameters(), lr=3e-3)

for epoch in range(8):
    model.train()
    for x, y in train_dl:
        loss = F.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
    model.eval()
    correct, nll = 0, 0.0
    with torch.no_grad():
        for x, y in valid_dl:
            out = model(x)
            nll += F.cross_entropy(out, y, reduction="sum").item()
            correct += (out.argmax(1) == y).sum().item()
    print(f"epoch {epoch}  last train loss {loss.item():.4f}  "
          f"valid loss {nll / len(valid):.4f}  valid acc {correct / len(valid):.4f}")
