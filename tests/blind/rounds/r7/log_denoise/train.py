"""Denoising autoencoder for cluster logs: template counts per minute -> anomaly score."""
import json
import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn


class DenoisingAE(nn.Module):
    def __init__(self, n_in, hidden, code):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(n_in, hidden), nn.ReLU(), nn.Linear(hidden, code))
        self.decoder = nn.Sequential(nn.Linear(code, hidden), nn.ReLU(), nn.Linear(hidden, n_in))

    def forward(self, x):
        return self.decoder(self.encoder(x))


def load_counts(path):
    return np.load(path).astype(np.float32)


class Trainer:
    def __init__(self, cfg, n_in):
        self.cfg = cfg
        self.model = DenoisingAE(n_in, cfg["hidden"], cfg["code"])
        self.opt = torch.optim.Adam(self.model.parameters(), lr=cfg["lr"])

    def epoch(self, x):
        self.model.train()
        total = 0.0
        for idx in torch.randperm(len(x)).split(self.cfg["batch_size"]):
            clean = x[idx]
            noisy = clean + self.cfg["noise_std"] * torch.randn_like(clean)
            loss = nn.functional.mse_loss(self.model(noisy), clean)
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            total += loss.item() * len(idx)
        return total / len(x)

    @torch.no_grad()
    def score(self, x):
        self.model.eval()
        return (self.model(x) - x).pow(2).mean(1)


def main():
    folder = Path(sys.argv[1])
    cfg = json.loads((folder / "config.json").read_text())
    torch.manual_seed(cfg["seed"])
    train = load_counts(folder / "normal.npy")
    held, odd = load_counts(folder / "normal_heldout.npy"), load_counts(folder / "incidents.npy")
    mean, std = np.log1p(train).mean(0), np.log1p(train).std(0)

    def prep(counts):
        return torch.from_numpy((np.log1p(counts) - mean) / std)

    x, held, odd = prep(train), prep(held), prep(odd)
    trainer = Trainer(cfg, x.shape[1])
    for ep in range(cfg["epochs"]):
        loss = trainer.epoch(x)
        if ep % 4 == 0 or ep == cfg["epochs"] - 1:
            a, b = trainer.score(held), trainer.score(odd)
            auc = (b[:, None] > a[None, :]).float().mean().item()
            print(f"epoch {ep:2d} train mse {loss:.4f} heldout mse {a.mean().item():.4f} incident AUC {auc:.3f}")
    limit = torch.quantile(trainer.score(held), 0.99)
    print(f"detected at 1% false alarms: {(trainer.score(odd) > limit).float().mean().item():.3f}")


if __name__ == "__main__":
    main()
