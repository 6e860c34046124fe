import argparse

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset


def beats(n, length, rng):
    t = np.linspace(0, 1, length)
    g = lambda c, w, a: a * np.exp(-0.5 * ((t - c) / w) ** 2)
    shift = rng.uniform(-0.08, 0.08, (n, 1))
    scale = rng.uniform(0.8, 1.2, (n, 1))
    st = rng.uniform(0.1, 0.35, (n, 1))
    wave = g(0.2 + shift, 0.03, 0.15) - g(0.37 + shift, 0.012, 0.15) + g(0.4 + shift, 0.02, 1.0)
    wave = wave - g(0.44 + shift, 0.015, 0.3) + g(0.68 + shift, 0.05, st)
    return (wave * scale).astype(np.float32)


class BeatSet(Dataset):
    """Clean beats; the corrupted version is drawn anew at every access."""

    def __init__(self, x, noise, seed):
        self.x = x
        self.noise = noise
        self.rng = np.random.default_rng(seed)

    def __len__(self):
        return len(self.x)

    def corrupt(self, beat):
        n = len(beat)
        drift = 0.25 * np.sin(2 * np.pi * (self.rng.uniform(0.3, 1.2) * np.arange(n) / n + self.rng.random()))
        beat += self.rng.normal(0, self.noise, n) + drift
        return beat

    def __getitem__(self, i):
        beat = self.x[i].copy()
        noisy = self.corrupt(beat).astype(np.float32)
        return {"input": noisy, "target": beat}


class DenoisingAE(nn.Module):
    def __init__(self, length, code):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(length, 96), nn.ReLU(), nn.Linear(96, code))
        self.decoder = nn.Sequential(nn.Linear(code, 96), nn.ReLU(), nn.Linear(96, length))

    def forward(self, x):
        return self.decoder(self.encoder(x))


@torch.no_grad()
def evaluate(model, dataset):
    model.eval()
    noisy = torch.stack([torch.from_numpy(dataset[i]["input"]) for i in range(len(dataset))])
    clean = torch.from_numpy(dataset.x)
    left = (model(noisy) - clean).pow(2).sum()
    return (left / (noisy - clean).pow(2).sum()).item()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--length", type=int, default=64)
    p.add_argument("--code", type=int, default=24)
    p.add_argument("--noise", type=float, default=0.15)
    p.add_argument("--epochs", type=int, default=10)
    a = p.parse_args()
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    train = BeatSet(beats(4000, a.length, rng), a.noise, seed=1)
    test = BeatSet(beats(800, a.length, rng), a.noise, seed=2)
    loader = DataLoader(train, batch_size=64, shuffle=True)
    model = DenoisingAE(a.length, a.code)
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for epoch in range(a.epochs):
        model.train()
        running = 0.0
        for batch in loader:
            loss = nn.functional.mse_loss(model(batch["input"]), batch["target"])
            opt.zero_grad()
            loss.backward()
            opt.step()
            running += loss.item()
        if epoch % 3 == 0:
            print(f"epoch {epoch:2d} loss {running / len(loader):.5f}")
    print(f"remaining noise energy: {evaluate(model, test):.4f}")


if __name__ == "__main__":
    main()
