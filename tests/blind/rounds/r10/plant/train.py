"""Leaf area of rosette plants from top-view pictures (CNN regression)."""
import csv
import glob
import os

import numpy as np
import torch
from torch import nn

CACHE = "cache/images_f32.npy"


def read_labels(path="data/leaf_area.csv"):
    with open(path, newline="") as fh:
        rows = list(csv.DictReader(fh))
    return [r["plant_id"] for r in rows], np.array([float(r["area_mm2"]) for r in rows], dtype=np.float32)


def read_images(ids):
    """Decoded pictures in the order of ids; kept on disk because the trays load slowly."""
    if os.path.exists(CACHE):
        x = np.load(CACHE)
        if len(x) == len(ids):
            return x
    store = {}
    for path in sorted(glob.glob("data/trays/*.npz")):
        tray = np.load(path)
        for pid, img in zip(tray["ids"], tray["images"]):
            store[str(pid)] = img
    x = np.stack([store[p] for p in ids]).astype(np.float32) / 255
    os.makedirs(os.path.dirname(CACHE), exist_ok=True)
    np.save(CACHE, x)
    return x


class AreaNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.ReLU(),
            nn.Conv2d(8, 16, 3, stride=2, padding=1), nn.ReLU(),
            nn.Conv2d(16, 16, 3, stride=2, padding=1), nn.ReLU(),
        )
        self.regress = nn.Sequential(nn.Flatten(), nn.Linear(16 * 16, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, x):
        return self.regress(self.features(x)).squeeze(1)


class Trainer:
    def __init__(self, epochs=20, batch=32, lr=2e-3, seed=1):
        torch.manual_seed(seed)
        self.epochs, self.batch = epochs, batch
        self.rng = np.random.default_rng(seed)
        ids, y = read_labels()
        x = read_images(ids)
        order = self.rng.permutation(len(ids))
        n_val = len(ids) // 5
        va, tr = order[:n_val], order[n_val:]
        mean = x[tr].mean(axis=(0, 2, 3), keepdims=True)
        std = x[tr].std(axis=(0, 2, 3), keepdims=True)
        x = (x - mean) / std
        self.y_mean, self.y_std = float(y[tr].mean()), float(y[tr].std())
        self.x_tr, self.y_tr = torch.from_numpy(x[tr]), torch.from_numpy(y[tr])
        self.x_va, self.y_va = torch.from_numpy(x[va]), torch.from_numpy(y[va])
        self.model = AreaNet()
        self.opt = torch.optim.AdamW(self.model.parameters(), lr=lr, weight_decay=1e-3)
        self.sched = torch.optim.lr_scheduler.CosineAnnealingLR(self.opt, epochs)
        self.loss = nn.MSELoss()
        print(f"plants: {len(tr)} train, {len(va)} val; area {self.y_mean:.1f} +- {self.y_std:.1f} mm2")

    def augment(self, x):
        if self.rng.random() < 0.5:
            x = x.flip(-1)
        if self.rng.random() < 0.5:
            x = x.flip(-2)
        return x

    def epoch(self):
        self.model.train()
        order = torch.from_numpy(self.rng.permutation(len(self.x_tr)))
        total = 0.0
        for idx in order.split(self.batch):
            target = (self.y_tr[idx] - self.y_mean) / self.y_std
            loss = self.loss(self.model(self.augment(self.x_tr[idx])), target)
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            total += loss.item() * len(idx)
        self.sched.step()
        return total / len(self.x_tr)

    @torch.no_grad()
    def validate(self):
        self.model.eval()
        pred = self.model(self.x_va) * self.y_std + self.y_mean
        err = pred - self.y_va
        r2 = 1 - err.pow(2).sum() / (self.y_va - self.y_va.mean()).pow(2).sum()
        return err.abs().mean().item(), r2.item()

    def run(self):
        for e in range(self.epochs):
            loss = self.epoch()
            mae, r2 = self.validate()
            print(f"epoch {e:2d} train mse {loss:.4f} val MAE {mae:.2f} mm2 R2 {r2:.4f}")


if __name__ == "__main__":
    torch.set_num_threads(1)
    Trainer().run()
