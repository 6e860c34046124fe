"""Bird species from short field recordings.

Log spectrograms are computed once and kept in DIR/features.npz.
"""
import json
import random
import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, Subset

N_FFT, HOP, N_BINS = 256, 64, 48
SEED = 99


def log_spectrogram(clips):
    x = clips.astype(np.float32) / 32768
    frames = np.lib.stride_tricks.sliding_window_view(x, N_FFT, axis=1)[:, ::HOP]
    spec = np.abs(np.fft.rfft(frames * np.hanning(N_FFT), axis=-1))[..., :2 * N_BINS]
    spec = spec.reshape(*spec.shape[:2], N_BINS, 2).mean(-1)
    return np.log(spec + 1e-3).transpose(0, 2, 1).astype(np.float32)


def load_features(folder):
    cache = folder / "features.npz"
    clips = np.load(folder / "clips.npy")
    if cache.exists():
        z = np.load(cache)
        if int(z["n_fft"]) == N_FFT and int(z["hop"]) == HOP and len(z["features"]) == len(clips):
            return z["features"].astype(np.float32)
    feats = log_spectrogram(clips)
    np.savez_compressed(cache, features=feats.astype(np.float16), n_fft=N_FFT, hop=HOP)
    return feats


class Recordings(Dataset):
    def __init__(self, folder):
        species = json.loads((folder / "meta.json").read_text())["species"]
        names = [line.split()[1] for line in (folder / "clips.txt").read_text().splitlines()]
        self.y = torch.tensor([species.index(n) for n in names])
        self.x = torch.from_numpy(load_features(folder))
        self.n_species = len(species)
        self.offset, self.scale = 0.0, 1.0

    def fit_scaling(self, rows):
        self.offset, self.scale = self.x[rows].mean(), self.x[rows].std()

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return (self.x[i] - self.offset) / self.scale, self.y[i]


def spec_augment(x):
    x = x.clone()
    for row in x:
        f, t = random.randrange(N_BINS - 4), random.randrange(x.shape[-1] - 4)
        row[f:f + 4] = 0
        row[:, t:t + 3] = 0
    return x


class BirdNet(nn.Module):
    def __init__(self, n_species):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv1d(N_BINS, 64, 3, padding=1), nn.BatchNorm1d(64), nn.ReLU(),
            nn.Conv1d(64, 64, 3, padding=1), nn.BatchNorm1d(64), nn.ReLU(),
        )
        self.head = nn.Sequential(nn.Dropout(0.3), nn.Linear(128, n_species))

    def forward(self, x):
        h = self.features(x)
        return self.head(torch.cat([h.mean(-1), h.amax(-1)], dim=1))


@torch.no_grad()
def accuracy(model, loader):
    model.eval()
    return torch.cat([model(x).argmax(1) == y for x, y in loader]).float().mean().item()


def main():
    folder = Path(sys.argv[1])
    random.seed(SEED)
    torch.manual_seed(SEED)
    data = Recordings(folder)
    order = torch.randperm(len(data)).tolist()
    cut = int(0.75 * len(data))
    data.fit_scaling(order[:cut])
    train = DataLoader(Subset(data, order[:cut]), batch_size=20, shuffle=True)
    valid = DataLoader(Subset(data, order[cut:]), batch_size=50)
    model = BirdNet(data.n_species)
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-2)
    for epoch in range(1, 31):
        model.train()
        total = 0.0
        for x, y in train:
            loss = nn.functional.cross_entropy(model(spec_augment(x)), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(y)
        if epoch % 5 == 0:
            print(f"epoch {epoch:2d} loss {total / cut:.4f} valid accuracy {accuracy(model, valid):.4f}", flush=True)
    print(f"valid accuracy {accuracy(model, valid):.4f}")


if __name__ == "__main__":
    main()
