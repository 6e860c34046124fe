"""State of a bee colony from hive sound; band energies are cached because the real recordings are long."""
import sys
from pathlib import Path
import numpy as np
import torch
import torch.nn as nn


def band_energies(waves, bands=64):
    spec = np.abs(np.fft.rfft(waves * np.hanning(waves.shape[1]), axis=1))[:, 1:]
    return np.log1p(spec[:, :bands]).astype(np.float32)


def features(folder, part):
    raw = np.load(folder / f"{part}.npz")
    cached = folder / "cache" / f"{part}_bands.npy"
    if cached.exists():
        feats = np.load(cached)
    else:
        feats = band_energies(raw["waves"])
    assert len(feats) == len(raw["state"])
    return torch.from_numpy(feats), torch.from_numpy(raw["state"])


def main(folder):
    torch.manual_seed(7)
    x, y = features(folder, "train")
    xt, yt = features(folder, "test")
    mean, std = x.mean(0), x.std(0) + 1e-6
    x, xt = (x - mean) / std, (xt - mean) / std
    net = nn.Sequential(nn.Linear(x.shape[1], 48), nn.ReLU(), nn.Dropout(0.2), nn.Linear(48, 4))
    opt = torch.optim.AdamW(net.parameters(), lr=3e-3, weight_decay=1e-2)
    for epoch in range(12):
        net.train()
        hits = 0
        for rows in torch.randperm(len(x)).split(35):
            out = net(x[rows])
            loss = nn.functional.cross_entropy(out, y[rows])
            opt.zero_grad()
            loss.backward()
            opt.step()
            hits += (out.argmax(1) == y[rows]).sum().item()
        if epoch % 3 == 2:
            print(f"epoch {epoch + 1} train accuracy {hits / len(x):.3f}")
    net.eval()
    with torch.no_grad():
        print(f"test accuracy {(net(xt).argmax(1) == yt).float().mean():.3f}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
