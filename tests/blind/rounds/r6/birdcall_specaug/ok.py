"""Bird call recognition on log-mel patches with SpecAugment."""
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn


@dataclass
class CallConfig:
    species: int = 6
    per_species: int = 70
    valid_per_species: int = 30
    mels: int = 24
    frames: int = 32
    freq_mask: int = 5
    time_mask: int = 7
    batch_size: int = 32
    epochs: int = 14
    lr: float = 2e-3
    seed: int = 21


def synth_calls(cfg, per_species, rng):
    t = np.arange(cfg.frames)
    f = np.arange(cfg.mels)[:, None]
    specs, labels = [], []
    for s in range(cfg.species):
        for _ in range(per_species):
            onset = rng.uniform(3, 12)
            dur = rng.uniform(10, 16)
            u = (t - onset) / dur
            start = 5 + 2.2 * s + rng.normal(0, 1.0)
            slope = (-1) ** s * (4 + s)
            wob = 1.5 * np.sin(2 * np.pi * u * (1 + s % 3))
            track = start + slope * u + wob
            active = ((u > 0) & (u < 1)).astype(float)
            call = np.exp(-0.5 * ((f - track) / 1.1) ** 2) * active
            specs.append(2.2 * call + rng.normal(0, 0.6, (cfg.mels, cfg.frames)))
            labels.append(s)
    return torch.tensor(np.array(specs), dtype=torch.float32), torch.tensor(labels)


def spec_augment(spec, cfg):
    spec = spec.clone()
    fw = int(torch.randint(0, cfg.freq_mask + 1, ()))
    f0 = int(torch.randint(0, cfg.mels - fw + 1, ()))
    spec[f0:f0 + fw] = 0
    tw = int(torch.randint(0, cfg.time_mask + 1, ()))
    t0 = int(torch.randint(0, cfg.frames - tw + 1, ()))
    spec[:, t0:t0 + tw] = 0
    return spec


class CallNet(nn.Module):
    def __init__(self, n_out):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv2d(1, 12, 3, padding=1), nn.BatchNorm2d(12), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(12, 24, 3, padding=1), nn.BatchNorm2d(24), nn.ReLU(), nn.MaxPool2d(2))
        self.fc = nn.Linear(24 * 6, n_out)

    def forward(self, x):
        z = self.conv(x.unsqueeze(1)).amax(-1)
        return self.fc(z.flatten(1))


class Trainer:
    def __init__(self, cfg):
        self.cfg = cfg
        torch.manual_seed(cfg.seed)
        rng = np.random.default_rng(cfg.seed)
        self.specs, self.labels = synth_calls(cfg, cfg.per_species, rng)
        self.val_specs, self.val_labels = synth_calls(cfg, cfg.valid_per_species, rng)
        mean, std = self.specs.mean(), self.specs.std()
        self.specs = (self.specs - mean) / std
        self.val_specs = (self.val_specs - mean) / std
        self.model = CallNet(cfg.species)
        self.opt = torch.optim.Adam(self.model.parameters(), lr=cfg.lr)
        self.criterion = nn.CrossEntropyLoss()

    def batches(self):
        order = torch.randperm(len(self.specs)).tolist()
        for i in range(0, len(order), self.cfg.batch_size):
            ids = order[i:i + self.cfg.batch_size]
            x = torch.stack([spec_augment(self.specs[j], self.cfg) for j in ids])
            yield x, self.labels[ids]

    def train_epoch(self):
        self.model.train()
        losses = []
        for x, y in self.batches():
            self.opt.zero_grad()
            loss = self.criterion(self.model(x), y)
            loss.backward()
            self.opt.step()
            losses.append(loss.item())
        return float(np.mean(losses))

    @torch.no_grad()
    def validate(self):
        self.model.eval()
        pred = self.model(self.val_specs).argmax(1)
        return (pred == self.val_labels).float().mean().item()

    def fit(self):
        for epoch in range(1, self.cfg.epochs + 1):
            loss = self.train_epoch()
            print(f"epoch {epoch:2d} | train loss {loss:.4f} | val acc {self.validate():.3f}")


if __name__ == "__main__":
    Trainer(CallConfig()).fit()
