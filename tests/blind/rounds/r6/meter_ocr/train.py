"""Four-digit meter readings from image crops; one classifier per digit position on a shared trunk."""
import csv
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split

DIGITS = 4


@dataclass
class Config:
    folder: Path
    epochs: int = 8
    batch_size: int = 32
    lr: float = 3e-3
    valid_fraction: float = 0.2
    seed: int = 4


def load_readings(folder):
    with np.load(folder / "crops.npz") as z:
        images = z["images"].astype(np.float32) / 15.0
    with open(folder / "readings.csv", newline="") as f:
        rows = sorted(csv.DictReader(f), key=lambda r: int(r["row"]))
    labels = np.array([[int(c) for c in r["reading"]] for r in rows])
    assert len(images) == len(labels)
    return TensorDataset(torch.from_numpy((images - 0.35) / 0.4), torch.from_numpy(labels))


class MeterReader(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
            nn.Conv2d(16, 24, 3, padding=1), nn.BatchNorm2d(24), nn.ReLU(), nn.MaxPool2d((2, 1)))
        self.fc = nn.Sequential(nn.Linear(24 * 3 * 6, 64), nn.ReLU(), nn.Linear(64, 10))

    def forward(self, x):
        z = nn.functional.pad(self.trunk(x.unsqueeze(1)), (1, 1))
        parts = [z[..., s:s + 6].flatten(1) for s in (1, 5, 9, 13)]
        return torch.stack([self.fc(p) for p in parts], 1)


class Trainer:
    def __init__(self, cfg):
        self.cfg = cfg
        torch.manual_seed(cfg.seed)
        data = load_readings(cfg.folder)
        n_valid = int(cfg.valid_fraction * len(data))
        train, valid = random_split(data, [len(data) - n_valid, n_valid])
        self.train_dl = DataLoader(train, cfg.batch_size, shuffle=True)
        self.valid_dl = DataLoader(valid, 128)
        self.model = MeterReader()
        self.opt = torch.optim.AdamW(self.model.parameters(), lr=cfg.lr, weight_decay=1e-2)

    def step(self, x, y):
        logits = self.model(x)
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), y.flatten())
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        return loss.item()

    @torch.no_grad()
    def validate(self):
        self.model.eval()
        digit = full = n = 0
        for x, y in self.valid_dl:
            ok = self.model(x).argmax(-1) == y
            digit += ok.sum().item() / DIGITS
            full += ok.all(1).sum().item()
            n += len(y)
        return digit / n, full / n

    def fit(self):
        for epoch in range(1, self.cfg.epochs + 1):
            self.model.train()
            loss = np.mean([self.step(x, y) for x, y in self.train_dl])
            digit, full = self.validate()
            print(f"epoch {epoch} loss {loss:.4f} digit acc {digit:.3f} full reading acc {full:.3f}")


if __name__ == "__main__":
    Trainer(Config(Path(sys.argv[1]))).fit()
