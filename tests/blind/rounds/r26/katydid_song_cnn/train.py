"""Which katydid sings? Species from 0.6 s clips of heterodyned night recordings."""
import csv
import json
import os
import sys

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


def spectrogram(clip):
    frames = np.lib.stride_tricks.sliding_window_view(clip, 128)[::64] * np.hanning(128)
    return np.log1p(np.abs(np.fft.rfft(frames, axis=1))[:, 4:52]).T


def load_spectrograms(folder, clips, cfg):
    """Spectrograms of all clips; those already made are taken from the cache."""
    cache = os.path.join(folder, "spectrograms.npz")
    names = [c["clip"] for c in clips]
    if os.path.exists(cache):
        stored = np.load(cache)
        if list(stored["clip"]) == names:
            return stored["spec"].astype(np.float32)
    nights = np.load(os.path.join(folder, "nights.npy"), mmap_mode="r")
    length = int(cfg["clip_s"] * cfg["rate"])
    specs = []
    for c in clips:
        start = int(round(float(c["start_s"]) * cfg["rate"]))
        specs.append(spectrogram(nights[int(c["night"]), start:start + length].astype(np.float32) / 12000))
    np.savez_compressed(cache, clip=np.array(names), spec=np.array(specs, np.float16))
    return np.array(specs, np.float32)


class SongNet(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 8, 5, padding=2, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d((2, 1)),
            nn.Conv2d(8, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 24, 3, padding=1, bias=False), nn.BatchNorm2d(24), nn.ReLU(), nn.AdaptiveAvgPool2d((4, 3)))
        self.classify = nn.Sequential(nn.Flatten(), nn.Dropout(0.2), nn.Linear(24 * 12, classes))

    def forward(self, x):
        return self.classify(self.features(x))


def main(folder):
    with open(os.path.join(folder, "config.json")) as f:
        cfg = json.load(f)
    torch.manual_seed(cfg["seed"])
    rng = np.random.default_rng(cfg["seed"])
    with open(os.path.join(folder, "clips.csv"), newline="") as f:
        clips = list(csv.DictReader(f))
    species = sorted({c["species"] for c in clips})
    y = torch.tensor([species.index(c["species"]) for c in clips])
    night = np.array([int(c["night"]) for c in clips])
    x = torch.from_numpy(load_spectrograms(folder, clips, cfg))[:, None]

    held_out = rng.permutation(np.unique(night))[:cfg["val_nights"]]
    val = torch.from_numpy(np.flatnonzero(np.isin(night, held_out)))
    train = torch.from_numpy(np.flatnonzero(~np.isin(night, held_out)))
    x = (x - x[train].mean()) / x[train].std()

    model = SongNet(len(species))
    optimizer = torch.optim.Adam(model.parameters(), lr=cfg["lr"])
    per_epoch = -(-len(train) // cfg["batch"])
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, cfg["lr"], total_steps=cfg["epochs"] * per_epoch)
    for epoch in range(1, cfg["epochs"] + 1):
        model.train()
        losses = []
        for batch in train[torch.from_numpy(rng.permutation(len(train)))].split(cfg["batch"]):
            loss = F.cross_entropy(model(x[batch]), y[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            scheduler.step()
            losses.append(loss.item())
        model.eval()
        with torch.no_grad():
            logits = model(x[val])
        accuracy = (logits.argmax(1) == y[val]).float().mean().item()
        print(f"epoch {epoch:2d}: train loss {np.mean(losses):.3f}, val loss {F.cross_entropy(logits, y[val]):.3f}, val accuracy {accuracy:.3f}")


if __name__ == "__main__":
    main(sys.argv[1])
