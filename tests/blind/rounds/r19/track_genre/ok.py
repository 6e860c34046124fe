# Pretrain on instrument tagging, then transfer to a small genre collection.
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

SEED = 13
N_MELS, N_FRAMES = 32, 40
N_INSTRUMENTS, N_GENRES = 12, 8

random.seed(SEED)
np.random.seed(SEED)
torch.manual_seed(SEED)


def render(instruments, rng):
    """Draw a log-mel patch in which the given instruments play a few notes."""
    mel = np.zeros((N_MELS, N_FRAMES), dtype=np.float32)
    freqs = np.arange(N_MELS)
    for k in instruments:
        spacing, decay, attack = 3 + k % 4, 0.15 + 0.12 * (k // 4), 1 + k % 3
        for onset in rng.integers(0, N_FRAMES - 8, 4):
            root = rng.integers(0, 8)
            spectrum = sum(np.exp(-0.5 * ((freqs - root - h * spacing) / 0.6) ** 2) * 0.8 ** h for h in range(6))
            env = np.zeros(N_FRAMES)
            n = np.arange(N_FRAMES - onset)
            env[onset:] = np.minimum(1, (n + 1) / attack) * np.exp(-decay * n)
            mel += np.outer(spectrum, env).astype(np.float32)
    mel = np.log1p(4 * mel) + 0.15 * rng.normal(size=mel.shape)
    return mel.astype(np.float32)


def instrument_set(n, rng):
    y = rng.integers(0, N_INSTRUMENTS, n)
    x = np.stack([render([k], rng) for k in y])
    return torch.from_numpy(x)[:, None], torch.from_numpy(y)


def genre_set(n, rng):
    line_ups = [(0, 5), (1, 6), (2, 7), (3, 8), (4, 9), (0, 10), (1, 11), (2, 4)]
    y = rng.integers(0, N_GENRES, n)
    x = np.stack([render(line_ups[g], rng) for g in y])
    return torch.from_numpy(x)[:, None], torch.from_numpy(y)


class Tagger(nn.Module):
    def __init__(self, n_out, dim=48):
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Conv2d(1, 12, 3, padding=1), nn.BatchNorm2d(12), nn.ReLU(), nn.MaxPool2d((1, 2)),
            nn.Conv2d(12, 24, (7, 3), padding=(3, 1)), nn.BatchNorm2d(24), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(24, dim, (5, 3), padding=(2, 1)), nn.BatchNorm2d(dim), nn.ReLU(),
            nn.AdaptiveAvgPool2d((2, 1)), nn.Flatten(),
        )
        self.head = nn.Linear(2 * dim, n_out)

    def forward(self, x):
        return self.head(self.backbone(x))


@torch.no_grad()
def accuracy(model, loader):
    model.eval()
    hits = total = 0
    for x, y in loader:
        hits += (model(x).argmax(1) == y).sum().item()
        total += len(y)
    return hits / total


def pretrain(model, loader, val_loader, epochs):
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    for epoch in range(epochs):
        model.train()
        for x, y in loader:
            loss = F.cross_entropy(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
        print(f"[pretrain] epoch {epoch} loss {loss.item():.3f} val_acc {accuracy(model, val_loader):.3f}", flush=True)


def finetune(model, loader, val_loader, epochs):
    for p in model.backbone.parameters():
        p.requires_grad = False
    model.head = nn.Linear(model.head.in_features, N_GENRES)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for epoch in range(epochs):
        model.train()
        model.backbone.eval()
        running = 0.0
        for x, y in loader:
            loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            running += loss.item() * len(y)
        if epoch % 5 == 4:
            print(f"[finetune] epoch {epoch} loss {running / len(loader.dataset):.3f} "
                  f"val_acc {accuracy(model, val_loader):.3f}", flush=True)


def main():
    rng = np.random.default_rng(SEED)
    src_train = DataLoader(TensorDataset(*instrument_set(800, rng)), batch_size=64, shuffle=True)
    src_val = DataLoader(TensorDataset(*instrument_set(120, rng)), batch_size=200)
    tgt_train = DataLoader(TensorDataset(*genre_set(256, rng)), batch_size=32, shuffle=True)
    tgt_val = DataLoader(TensorDataset(*genre_set(200, rng)), batch_size=100)
    model = Tagger(N_INSTRUMENTS)
    pretrain(model, src_train, src_val, epochs=4)
    finetune(model, tgt_train, tgt_val, epochs=15)
    print(f"genre accuracy on held-out tracks: {accuracy(model, tgt_val):.4f}")


if __name__ == "__main__":
    main()
