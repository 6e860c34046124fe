import sys

import numpy as np
import torch
import torch.nn as nn

torch.manual_seed(1)
folder = sys.argv[1]
N_FFT, HOP = 128, 64


def load(name):
    with np.load(f"{folder}/{name}.npz") as blob:
        audio = torch.tensor(blob["audio"].astype(np.float32) / 128 - 1)
        return audio, torch.tensor(blob["note"].astype(np.int64))


def features(audio):
    spec = torch.stft(audio, N_FFT, HOP, window=torch.hann_window(N_FFT), return_complex=True).abs()
    return torch.log(spec + 1e-2)


class NoteNet(nn.Module):
    def __init__(self, n_bins=N_FFT // 2 + 1, n_notes=5):
        super().__init__()
        self.norm = nn.BatchNorm1d(n_bins)
        self.frame = nn.Sequential(nn.Conv1d(n_bins, 32, 1), nn.ReLU(), nn.Dropout(0.2))
        self.out = nn.Linear(32, n_notes)

    def forward(self, spec):
        return self.out(self.frame(self.norm(spec)).mean(-1))


def metrics(model, x, y):
    model.eval()
    with torch.no_grad():
        logits = model(x)
    return nn.functional.cross_entropy(logits, y).item(), (logits.argmax(1) == y).float().mean().item()


audio, note = load("train")
val_audio, val_note = load("val")
x, xv = features(audio), features(val_audio)
model = NoteNet()
opt = torch.optim.AdamW(model.parameters(), lr=3e-3)
for epoch in range(10):
    model.train()
    for idx in torch.randperm(len(x)).split(25):
        loss = nn.functional.cross_entropy(model(x[idx]), note[idx])
        opt.zero_grad()
        loss.backward()
        opt.step()
    train_loss, train_acc = metrics(model, x, note)
    val_loss, val_acc = metrics(model, xv, val_note)
    print(f"epoch {epoch} train {train_loss:.3f} acc {train_acc:.3f} | val {val_loss:.3f} acc {val_acc:.3f}")
