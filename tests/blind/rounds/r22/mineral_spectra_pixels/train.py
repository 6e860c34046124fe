"""Mineral map from hyperspectral pixels. Usage: train.py <run folder with run.ini>"""
import configparser
import os
import sys

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


class Settings:
    def __init__(self, folder):
        ini = configparser.ConfigParser()
        ini.read(os.path.join(folder, "run.ini"))
        self.train_file = os.path.join(folder, ini["data"]["train"])
        self.val_file = os.path.join(folder, ini["data"]["validation"])
        t = ini["training"]
        self.epochs, self.batch_size = t.getint("epochs"), t.getint("batch_size")
        self.accumulate, self.hidden = t.getint("accumulate"), t.getint("hidden")
        self.learning_rate, self.seed = t.getfloat("learning_rate"), t.getint("seed")


def read_pixels(path):
    table = np.loadtxt(path, delimiter=",", skiprows=1, dtype=np.float32)
    spectra = table[:, 1:]
    spectra = spectra / spectra.mean(axis=1, keepdims=True)
    return torch.from_numpy(spectra), torch.from_numpy(table[:, 0].astype(np.int64))


class SpectralNet(nn.Module):
    def __init__(self, bands, hidden, kinds):
        super().__init__()
        self.inp = nn.Linear(bands, hidden)
        self.mid = nn.Linear(hidden, hidden)
        self.out = nn.Linear(hidden, kinds)

    def forward(self, s):
        h = torch.tanh(self.inp(s))
        h = h + torch.tanh(self.mid(h))
        return self.out(h)


class Trainer:
    def __init__(self, cfg, model, train_loader, val_loader):
        self.cfg, self.model = cfg, model
        self.train_loader, self.val_loader = train_loader, val_loader
        self.loss_fn = nn.CrossEntropyLoss()
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=cfg.learning_rate, weight_decay=1e-3)

    def train_epoch(self):
        self.model.train()
        self.optimizer.zero_grad()
        running = 0.0
        for i, (spectra, kind) in enumerate(self.train_loader, start=1):
            loss = self.loss_fn(self.model(spectra), kind)
            (loss / self.cfg.accumulate).backward()
            if i % self.cfg.accumulate == 0:
                self.optimizer.step()
                self.optimizer.zero_grad()
            running += loss.item()
        return running / len(self.train_loader)

    @torch.no_grad()
    def validate(self):
        self.model.eval()
        right = sum((self.model(s).argmax(1) == k).sum().item() for s, k in self.val_loader)
        return right / len(self.val_loader.dataset)

    def fit(self):
        score = 0.0
        for epoch in range(1, self.cfg.epochs + 1):
            loss = self.train_epoch()
            score = self.validate()
            print(f"epoch {epoch:2d}/{self.cfg.epochs}  loss {loss:.4f}  val accuracy {score:.4f}")
        return score


def main():
    cfg = Settings(sys.argv[1])
    torch.manual_seed(cfg.seed)
    x, y = read_pixels(cfg.train_file)
    xv, yv = read_pixels(cfg.val_file)
    mean, std = x.mean(0), x.std(0)
    train_loader = DataLoader(TensorDataset((x - mean) / std, y), batch_size=cfg.batch_size, shuffle=True)
    val_loader = DataLoader(TensorDataset((xv - mean) / std, yv), batch_size=300)
    model = SpectralNet(x.shape[1], cfg.hidden, int(y.max()) + 1)
    score = Trainer(cfg, model, train_loader, val_loader).fit()
    print(f"validation accuracy {score:.4f}")


if __name__ == "__main__":
    main()
