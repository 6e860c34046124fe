"""Sound tagging from waveform shards.

usage: train.py FOLDER ; FOLDER/manifest.json lists the shards (npz: wave int16 (N, 4000), tags uint8 (N, 5)).
"""
import json
import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn

TAGS = ["hum", "horn", "whistle", "chirp", "noise"]


def read_split(folder, manifest, split):
    waves, tags = [], []
    for item in manifest["shards"]:
        if item["split"] == split:
            z = np.load(folder / item["file"])
            waves.append(z["wave"])
            tags.append(z["tags"])
    return (torch.from_numpy(np.concatenate(waves)).float() / 32768,
            torch.from_numpy(np.concatenate(tags)).float())


def band_matrix(n_fft, sr, bands=40, low=60.0):
    """Triangular filters, evenly spaced in log frequency."""
    edges = np.geomspace(low, sr / 2, bands + 2)
    freqs = np.fft.rfftfreq(n_fft, 1 / sr)
    up = (freqs[None] - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
    down = (edges[2:, None] - freqs[None]) / (edges[2:] - edges[1:-1])[:, None]
    fb = np.clip(np.minimum(up, down), 0, None)
    return torch.tensor(fb / np.maximum(fb.sum(1, keepdims=True), 1e-6), dtype=torch.float32)


def log_bands(wave, sr, n_fft=512, hop=160):
    spec = torch.stft(wave, n_fft, hop, window=torch.hann_window(n_fft), return_complex=True).abs() ** 2
    return torch.log(band_matrix(n_fft, sr) @ spec + 1e-4)


class Tagger(nn.Module):
    def __init__(self, bands=40, width=32):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv1d(bands, width, 3, padding=1), nn.BatchNorm1d(width), nn.ReLU(),
            nn.Conv1d(width, width, 3, padding=1), nn.BatchNorm1d(width), nn.ReLU())
        self.head = nn.Linear(2 * width, len(TAGS))

    def forward(self, x):
        h = self.net(x)
        return self.head(torch.cat([h.mean(-1), h.amax(-1)], 1))


def ap_score(s, t):
    hit = t[np.argsort(-s)]
    return (hit.cumsum() / np.arange(1, len(hit) + 1))[hit == 1].mean()


@torch.no_grad()
def report(model, x, y):
    model.eval()
    s = model(x).numpy()
    return [float(ap_score(s[:, k], y[:, k].numpy())) for k in range(len(TAGS))]


def main():
    folder = Path(sys.argv[1])
    manifest = json.loads((folder / "manifest.json").read_text())
    sr = manifest["sample_rate"]
    torch.manual_seed(2)
    data = {s: read_split(folder, manifest, s) for s in ("train", "valid", "test")}
    feats = {s: log_bands(w, sr) for s, (w, _) in data.items()}
    mean, std = feats["train"].mean((0, 2), keepdim=True), feats["train"].std((0, 2), keepdim=True)
    feats = {s: (f - mean) / std for s, f in feats.items()}
    x, y = feats["train"], data["train"][1]
    print("clips", {s: len(f) for s, f in feats.items()}, "frames", x.shape[-1])
    model = Tagger()
    opt = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=1e-2)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, 5e-3, epochs=5, steps_per_epoch=-(-len(x) // 32))
    for epoch in range(5):
        model.train()
        total = 0.0
        for b in torch.randperm(len(x)).split(32):
            loss = nn.functional.binary_cross_entropy_with_logits(model(x[b]), y[b])
            opt.zero_grad()
            loss.backward()
            opt.step()
            sched.step()
            total += loss.item() * len(b)
        print(f"epoch {epoch:2d} loss {total / len(x):.4f} valid mAP {np.mean(report(model, feats['valid'], data['valid'][1])):.4f}")
    aps = report(model, feats["test"], data["test"][1])
    print("test AP " + " ".join(f"{t}={a:.3f}" for t, a in zip(TAGS, aps)))
    print(f"test mAP {np.mean(aps):.4f}")


if __name__ == "__main__":
    main()
