import math

import torch
import torch.nn as nn
import torch.nn.functional as F

RATE, LENGTH = 4000, 800


def chirps(words, n, gen):
    """each word sweeps from one frequency to another"""
    y = torch.randint(len(words), (n,), generator=gen)
    f0 = torch.tensor([w[0] for w in words])[y][:, None] * (1 + 0.04 * torch.randn(n, 1, generator=gen))
    f1 = torch.tensor([w[1] for w in words])[y][:, None] * (1 + 0.04 * torch.randn(n, 1, generator=gen))
    t = torch.arange(LENGTH) / RATE
    span = LENGTH / RATE
    phase = 2 * math.pi * (f0 * t + (f1 - f0) * t ** 2 / (2 * span)) + 6.28 * torch.rand(n, 1, generator=gen)
    wave = torch.sin(phase) + 0.7 * torch.randn(n, LENGTH, generator=gen)
    spec = torch.stft(wave, 128, 64, window=torch.hann_window(128), return_complex=True).abs()
    return torch.log1p(spec), y


class Spotter(nn.Module):
    def __init__(self, n_words):
        super().__init__()
        self.trunk = nn.Sequential(nn.Conv1d(65, 48, 3, padding=1), nn.ReLU(), nn.Conv1d(48, 48, 3, padding=1),
                                   nn.ReLU(), nn.AdaptiveAvgPool1d(4), nn.Flatten())
        self.head = nn.Linear(48 * 4, n_words)

    def forward(self, x):
        return self.head(self.trunk(x))


def train(model, optimizer, x, y, epochs, tag):
    for epoch in range(epochs):
        model.train()
        total = 0.0
        for idx in torch.randperm(len(x)).split(32):
            loss = F.cross_entropy(model(x[idx]), y[idx])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(idx)
        print(f"{tag} epoch {epoch} loss {total / len(x):.3f}")


@torch.no_grad()
def accuracy(model, x, y):
    model.eval()
    return (model(x).argmax(1) == y).float().mean().item()


def main():
    torch.manual_seed(40)
    gen = torch.Generator().manual_seed(40)
    base_words = [(300., 900.), (900., 300.), (500., 500.), (1200., 600.), (600., 1200.), (1500., 1500.)]
    new_words = [(400., 1400.), (1400., 400.), (800., 800.), (1100., 1700.), (1700., 1100.)]
    x, y = chirps(base_words, 1000, gen)
    xv, yv = chirps(base_words, 300, gen)
    model = Spotter(len(base_words))
    train(model, torch.optim.Adam(model.parameters(), lr=2e-3), x, y, 3, "base")
    print(f"base accuracy {accuracy(model, xv, yv):.3f}")

    x, y = chirps(new_words, 500, gen)
    xv, yv = chirps(new_words, 300, gen)
    model.trunk.requires_grad_(False)
    optimizer = torch.optim.Adam(model.head.parameters(), lr=5e-3)
    model.head = nn.Linear(48 * 4, len(new_words))
    train(model, optimizer, x, y, 6, "new words")
    print(f"new word accuracy {accuracy(model, xv, yv):.3f}")


main()
