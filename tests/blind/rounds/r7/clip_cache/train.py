"""Sound event classification on short clips with cached band energies."""
import csv
import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn

CLASSES = ["bell", "engine", "whistle", "rain", "knock"]
N_FFT, HOP = 64, 32


def band_energies(wave):
    frames = np.stack([wave[s:s + N_FFT] for s in range(0, len(wave) - N_FFT + 1, HOP)])
    power = np.abs(np.fft.rfft(frames * np.hanning(N_FFT), axis=1)) ** 2
    bands = power[:, 1:].reshape(len(frames), 16, 2).sum(-1)
    return np.log(bands + 1.0).astype(np.float32)


def load_features(folder):
    cache = folder / "cache" / "bands.npy"
    if cache.exists():
        return np.load(cache).astype(np.float32)
    waves = np.load(folder / "waves.npy").astype(np.float32)
    feats = np.stack([band_energies(w) for w in waves])
    cache.parent.mkdir(exist_ok=True)
    np.save(cache, feats.astype(np.float16))
    return feats


def load_manifest(folder):
    with open(folder / "clips.csv") as f:
        rows = list(csv.DictReader(f))
    labels = torch.tensor([CLASSES.index(r["event"]) for r in rows])
    is_train = torch.tensor([r["split"] == "train" for r in rows])
    return labels, is_train


class ClipNet(nn.Module):
    def __init__(self, n_bands=16, n_classes=len(CLASSES)):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv1d(n_bands, 32, 3, padding=1), nn.ReLU(),
                                  nn.Conv1d(32, 32, 3, padding=1), nn.ReLU())
        self.drop = nn.Dropout(0.2)
        self.out = nn.Linear(32, n_classes)

    def forward(self, x):
        return self.out(self.drop(self.conv(x.transpose(1, 2)).mean(-1)))


def main():
    folder = Path(sys.argv[1])
    torch.manual_seed(6)
    x = torch.from_numpy(load_features(folder))
    y, is_train = load_manifest(folder)
    assert len(x) == len(y)
    xt, yt, xv, yv = x[is_train], y[is_train], x[~is_train], y[~is_train]
    mean, std = xt.mean((0, 1)), xt.std((0, 1))
    xt, xv = (xt - mean) / std, (xv - mean) / std

    net = ClipNet()
    opt = torch.optim.Adam(net.parameters(), lr=3e-3)
    loss_fn = nn.CrossEntropyLoss()
    for epoch in range(16):
        net.train()
        total = 0.0
        for idx in torch.randperm(len(xt)).split(20):
            loss = loss_fn(net(xt[idx]), yt[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(idx)
        net.eval()
        with torch.no_grad():
            logits = net(xv)
        acc = (logits.argmax(1) == yv).float().mean().item()
        print(f"epoch {epoch:2d} train {total / len(xt):.3f} val {loss_fn(logits, yv).item():.3f} acc {acc:.3f}")


if __name__ == "__main__":
    main()
