import json
import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn

root = Path(sys.argv[1])
N_BINS, FRAME, HOP = 24, 64, 32


def spectrum(waves):
    x = (waves.astype(np.float32) - 128) / 128
    frames = np.stack([x[:, i:i + FRAME] * np.hanning(FRAME) for i in range(0, x.shape[1] - FRAME + 1, HOP)], 1)
    power = np.abs(np.fft.rfft(frames, axis=2))[:, :, :N_BINS]
    return np.log(power + 1e-3).mean(1).astype(np.float32)


def load_features(waves):
    cache = root / "cache" / "features.npy"
    if cache.exists():
        feats = np.load(cache)
        if feats.shape == (len(waves), N_BINS):
            return feats
    feats = spectrum(waves)
    cache.parent.mkdir(exist_ok=True)
    np.save(cache, feats)
    return feats


def main():
    torch.manual_seed(19)
    index = json.loads((root / "index.json").read_text())
    labels = torch.tensor(index["labels"])
    feats = torch.from_numpy(load_features(np.load(root / "waves.npy")))
    n = index["train"]
    mean, std = feats[:n].mean(0), feats[:n].std(0)
    feats = (feats - mean) / (std + 1e-5)
    model = nn.Sequential(nn.Linear(N_BINS, 48), nn.ReLU(), nn.Dropout(0.1), nn.Linear(48, 5))
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    for epoch in range(20):
        model.train()
        total = 0.0
        for idx in torch.randperm(n).split(20):
            loss = nn.functional.cross_entropy(model(feats[idx]), labels[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(idx)
        model.eval()
        with torch.no_grad():
            acc = (model(feats[n:]).argmax(1) == labels[n:]).float().mean().item()
        if epoch % 4 == 3:
            print(f"epoch {epoch} loss {total / n:.3f} held-out accuracy {acc:.3f}")


main()
