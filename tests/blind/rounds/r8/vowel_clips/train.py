"""Vowel recognition from short 8-bit PCM clips: log-magnitude spectrogram + 1-d conv net."""
import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn

VOWELS = "i e a o u æ".split()
N_FFT, HOP = 128, 32
EPOCHS, BATCH, LR = 20, 40, 2e-3


def load_clips(path):
    with np.load(path) as z:
        pcm, label = z["audio"], z["vowel"]
    wave = (torch.from_numpy(pcm).float() - 128.0) / 128.0
    return wave, torch.from_numpy(label)


def log_spectrogram(wave):
    spec = torch.stft(wave, N_FFT, HOP, window=torch.hann_window(N_FFT), return_complex=True)
    return torch.log(spec.abs() + 1e-2)                      # (batch, bins, frames)


class VowelNet(nn.Module):
    def __init__(self, bins, classes):
        super().__init__()
        self.conv = nn.Conv1d(bins, 32, 3, padding=1)
        self.norm = nn.BatchNorm1d(32)
        self.drop = nn.Dropout(0.2)
        self.fc = nn.Linear(32, classes)

    def forward(self, spec):
        h = torch.relu(self.norm(self.conv(spec)))
        return self.fc(self.drop(h.mean(-1)))


class Trainer:
    def __init__(self, folder):
        torch.manual_seed(14)
        folder = Path(folder)
        wave, self.y = load_clips(folder / "train.npz")
        wave_va, self.y_va = load_clips(folder / "valid.npz")
        self.x, self.x_va = log_spectrogram(wave), log_spectrogram(wave_va)
        self.mean, self.std = self.x.mean(), self.x.std()
        self.model = VowelNet(self.x.shape[1], len(VOWELS))
        self.opt = torch.optim.AdamW(self.model.parameters(), lr=LR, weight_decay=1e-2)
        self.loss_fn = nn.CrossEntropyLoss()

    def logits(self, spec):
        return self.model((spec - self.mean) / self.std)

    def epoch(self):
        self.model.train()
        total, hits = 0.0, 0
        for idx in torch.randperm(len(self.y)).split(BATCH):
            out = self.logits(self.x[idx])
            loss = self.loss_fn(out, self.y[idx])
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            total += loss.item() * len(idx)
            hits += (out.argmax(1) == self.y[idx]).sum().item()
        return total / len(self.y), hits / len(self.y)

    @torch.no_grad()
    def validate(self):
        self.model.eval()
        out = self.logits(self.x_va)
        return self.loss_fn(out, self.y_va).item(), (out.argmax(1) == self.y_va).float().mean().item()


if __name__ == "__main__":
    trainer = Trainer(sys.argv[1])
    print(f"train {len(trainer.y)} clips, valid {len(trainer.y_va)} clips")
    for e in range(1, EPOCHS + 1):
        tl, ta = trainer.epoch()
        vl, va = trainer.validate()
        if e % 4 == 0:
            print(f"epoch {e:2d}  train loss {tl:.4f} acc {ta:.3f}  valid loss {vl:.4f} acc {va:.3f}")
