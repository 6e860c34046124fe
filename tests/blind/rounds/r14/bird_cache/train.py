"""Bird species from log spectra. Training features come from the cache, test clips are analysed here."""
import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn

FRAME = 512
N_BINS = 64


def log_spectrum(wave):
    frames = wave[: len(wave) // FRAME * FRAME].reshape(-1, FRAME)
    power = np.abs(np.fft.rfft(frames * np.hanning(FRAME), axis=1)) ** 2
    return np.log(power.mean(0) + 1e-6)[:N_BINS].astype(np.float32)


def cached(path, waves_path):
    if path.exists():
        return np.load(path)
    feats = np.stack([log_spectrum(w.astype(np.float32)) for w in np.load(waves_path)])
    path.parent.mkdir(exist_ok=True)
    np.save(path, feats)
    return feats


class SpectrumNet(nn.Module):
    def __init__(self, n_species):
        super().__init__()
        self.norm = nn.BatchNorm1d(N_BINS)
        self.conv = nn.Conv1d(1, 8, 5, padding=2)
        self.fc = nn.Linear(8 * N_BINS // 2, n_species)

    def forward(self, x):
        h = torch.relu(self.conv(self.norm(x).unsqueeze(1)))
        return self.fc(nn.functional.max_pool1d(h, 2).flatten(1))


def main():
    home = Path(sys.argv[1])
    torch.manual_seed(7)
    x = torch.from_numpy(cached(home / "cache" / "train_features.npy", home / "train_waves.npy"))
    y = torch.from_numpy(np.load(home / "train_species.npy"))
    x_test = torch.from_numpy(np.stack([log_spectrum(w.astype(np.float32)) for w in np.load(home / "test_waves.npy")]))
    y_test = torch.from_numpy(np.load(home / "test_species.npy"))
    n_val = 100
    net = SpectrumNet(int(y.max()) + 1)
    opt = torch.optim.Adam(net.parameters(), lr=2e-3)
    for epoch in range(15):
        net.train()
        for idx in (torch.randperm(len(x) - n_val) + n_val).split(50):
            loss = nn.functional.cross_entropy(net(x[idx]), y[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
        if epoch % 5 == 4:
            net.eval()
            with torch.no_grad():
                val = (net(x[:n_val]).argmax(1) == y[:n_val]).float().mean()
            print(f"epoch {epoch + 1} loss {loss.item():.3f} val acc {val:.3f}")
    net.eval()
    with torch.no_grad():
        print(f"test accuracy {(net(x_test).argmax(1) == y_test).float().mean():.3f}")


main()
