import sys
import tomllib
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


class BandPass:
    """Zero-phase FFT band-pass."""

    def __init__(self, rate, low, high):
        self.rate, self.low, self.high = rate, low, high

    def __call__(self, x):
        spec = np.fft.rfft(x, axis=-1)
        freq = np.fft.rfftfreq(x.shape[-1], d=1.0 / self.rate)
        spec[..., (freq < self.low) | (freq > self.high)] = 0
        out = np.fft.irfft(spec, n=x.shape[-1], axis=-1)
        return out / (out.std(axis=-1, keepdims=True) + 1e-6)


class TSClassifier(nn.Module):
    def __init__(self, classes, ch=24):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv1d(1, ch, 25, padding=12), nn.BatchNorm1d(ch), nn.ReLU(), nn.MaxPool1d(2),
            nn.Conv1d(ch, ch, 9, padding=4), nn.BatchNorm1d(ch), nn.ReLU(), nn.MaxPool1d(2),
            nn.Conv1d(ch, 2 * ch, 5, padding=2), nn.BatchNorm1d(2 * ch), nn.ReLU(),
        )
        self.fc = nn.Linear(2 * ch, classes)

    def forward(self, x):
        return self.fc(self.features(x).mean(-1))


def split(n, rng, parts=(0.7, 0.1, 0.2)):
    idx = rng.permutation(n)
    a, b = int(parts[0] * n), int((parts[0] + parts[1]) * n)
    return idx[:a], idx[a:b], idx[b:]


@torch.no_grad()
def accuracy(model, ds):
    model.eval()
    x, y = ds.tensors
    pred = torch.cat([model(c) for c in x.split(128)]).argmax(1)
    return (pred == y).float().mean().item()


def main():
    folder = Path(sys.argv[1])
    with open(folder / "config.toml", "rb") as f:
        cfg = tomllib.load(f)
    tr_cfg = cfg["training"]
    torch.manual_seed(tr_cfg["seed"])
    rng = np.random.default_rng(tr_cfg["seed"])

    raw = np.load(folder / "clips.npz")
    band = BandPass(cfg["sensor"]["sample_rate_hz"], cfg["filter"]["low_hz"], cfg["filter"]["high_hz"])
    x = torch.from_numpy(band(raw["x"].astype(np.float32)).astype(np.float32)).unsqueeze(1)
    y = torch.from_numpy(raw["y"].astype(np.int64))
    sets = [TensorDataset(x[i], y[i]) for i in map(torch.from_numpy, split(len(x), rng))]
    train, valid, test = sets
    loader = DataLoader(train, batch_size=tr_cfg["batch_size"], shuffle=True)
    print(f"{cfg['sensor']['name']}: {len(train)} / {len(valid)} / {len(test)} clips, classes {cfg['sensor']['classes']}")

    model = TSClassifier(len(cfg["sensor"]["classes"]))
    opt = torch.optim.Adam(model.parameters(), lr=tr_cfg["lr"])
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, tr_cfg["epochs"])
    loss_fn = nn.CrossEntropyLoss()
    for epoch in range(tr_cfg["epochs"]):
        model.train()
        total = 0.0
        for xb, yb in loader:
            opt.zero_grad()
            loss = loss_fn(model(xb), yb)
            loss.backward()
            opt.step()
            total += loss.item()
        sched.step()
        print(f"epoch {epoch:02d} loss {total / len(loader):.3f} valid acc {accuracy(model, valid):.3f}")
    print(f"test_acc {accuracy(model, test):.4f}")


if __name__ == "__main__":
    main()
