"""Keyword spotting: raw 16-bit PCM plus a manifest, log spectra at 8 kHz, small CNN."""
import argparse
import json
import os

import numpy as np
import torch
import torch.nn as nn

RATE = 8000


class Corpus:
    def __init__(self, folder, part, words=None):
        pcm = np.fromfile(os.path.join(folder, part + ".pcm"), dtype=np.int16)
        with open(os.path.join(folder, part + ".jsonl")) as f:
            self.manifest = [json.loads(line) for line in f]
        self.words = words or sorted({m["word"] for m in self.manifest})
        self.x = torch.stack([self.features(pcm[m["start"]:m["start"] + m["samples"]], m["sample_rate"]) for m in self.manifest])
        self.y = torch.tensor([self.words.index(m["word"]) for m in self.manifest])

    @staticmethod
    def features(wave, rate):
        w = torch.from_numpy(wave.astype(np.float32) / 32768)
        if rate != RATE:
            w = nn.functional.interpolate(w[None, None], size=int(len(w) * RATE / rate), mode="area")[0, 0]
        w = nn.functional.pad(w[:RATE], (0, max(0, RATE - len(w))))       # one second
        spec = torch.stft(w, 256, hop_length=200, window=torch.hann_window(256), return_complex=True).abs()
        return torch.log(spec[:64] + 1e-3)


class Spotter(nn.Module):
    def __init__(self, n_words, ch=16):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv1d(64, 2 * ch, 5, padding=2), nn.BatchNorm1d(2 * ch), nn.ReLU(), nn.MaxPool1d(4),
            nn.Conv1d(2 * ch, ch, 5, padding=2), nn.BatchNorm1d(ch), nn.ReLU(), nn.AdaptiveAvgPool1d(4))
        self.fc = nn.Linear(4 * ch, n_words)

    def forward(self, x):
        x = x - x.mean(dim=(1, 2), keepdim=True)
        return self.fc(self.conv(x).flatten(1))


def score(model, c):
    model.eval()
    with torch.no_grad():
        return (model(c.x).argmax(1) == c.y).float().mean().item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("folder")
    ap.add_argument("--epochs", type=int, default=10)
    ap.add_argument("--batch", type=int, default=12)
    args = ap.parse_args()
    torch.manual_seed(23)
    train = Corpus(args.folder, "train")
    dev, test = Corpus(args.folder, "dev", train.words), Corpus(args.folder, "test", train.words)
    print(len(train.manifest), "clips,", len(train.words), "words")
    model = Spotter(len(train.words))
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for epoch in range(args.epochs):
        model.train()
        s = 0.0
        for idx in torch.randperm(len(train.y)).split(args.batch):
            loss = nn.functional.cross_entropy(model(train.x[idx]), train.y[idx], label_smoothing=0.05)
            opt.zero_grad()
            loss.backward()
            opt.step()
            s += loss.item() * len(idx)
        print(f"epoch {epoch} ce {s / len(train.y):.4f} dev acc {score(model, dev):.4f}")
    print(f"test acc {score(model, test):.4f}")


if __name__ == "__main__":
    main()
