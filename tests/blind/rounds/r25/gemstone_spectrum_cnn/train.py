"""Classify the treatment of blue sapphires from UV-Vis absorbance spectra."""
import csv
import os
import sys

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

CLASSES = ["untreated", "heated", "beryllium_diffused", "glass_filled"]


class SpectrumNet(nn.Module):
    def __init__(self, n_classes):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv1d(1, 16, 7, padding=3), nn.BatchNorm1d(16), nn.ReLU(), nn.MaxPool1d(2),
            nn.Conv1d(16, 32, 5, padding=2), nn.BatchNorm1d(32), nn.ReLU(), nn.MaxPool1d(2),
            nn.Conv1d(32, 32, 3, padding=1), nn.BatchNorm1d(32), nn.ReLU(), nn.AdaptiveAvgPool1d(8),
        )
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(32 * 8, 64), nn.ReLU(), nn.Dropout(0.2),
                                  nn.Linear(64, n_classes))

    def forward(self, x):
        return self.head(self.features(x.unsqueeze(1)))


def read_tables(folder):
    spectra = {}
    with open(os.path.join(folder, "spectra.csv"), newline="") as f:
        for row in csv.DictReader(f):
            if row["stone_id"] in spectra:
                raise ValueError(f"stone {row['stone_id']} appears twice in spectra.csv")
            spectra[row["stone_id"]] = [float(v) for k, v in row.items() if k.startswith("nm_")]
    parts = {"train": ([], []), "validation": ([], [])}
    seen = set()
    with open(os.path.join(folder, "grading.csv"), newline="") as f:
        for row in csv.DictReader(f):
            stone = row["stone_id"]
            if stone in seen:
                raise ValueError(f"stone {stone} graded twice")
            seen.add(stone)
            x, y = parts[row["split"]]
            x.append(spectra[stone])
            y.append(CLASSES.index(row["treatment"]))
    if seen != set(spectra):
        raise ValueError("spectra.csv and grading.csv do not hold the same stones")
    return {k: (torch.tensor(x, dtype=torch.float32), torch.tensor(y)) for k, (x, y) in parts.items()}


def evaluate(model, loader):
    model.eval()
    hits = np.zeros(len(CLASSES))
    total = np.zeros(len(CLASSES))
    loss_sum, n = 0.0, 0
    with torch.no_grad():
        for x, y in loader:
            out = model(x)
            loss_sum += nn.functional.cross_entropy(out, y, reduction="sum").item()
            n += len(y)
            for t, p in zip(y.tolist(), out.argmax(1).tolist()):
                total[t] += 1
                hits[t] += t == p
    return loss_sum / n, hits.sum() / total.sum(), (hits / np.maximum(total, 1)).mean()


def main():
    folder = sys.argv[1]
    torch.manual_seed(3)
    parts = read_tables(folder)
    x_tr, y_tr = parts["train"]
    x_va, y_va = parts["validation"]
    mean, std = x_tr.mean(0), x_tr.std(0)
    train_loader = DataLoader(TensorDataset((x_tr - mean) / std, y_tr), batch_size=32, shuffle=True)
    val_loader = DataLoader(TensorDataset((x_va - mean) / std, y_va), batch_size=128)
    print(f"{len(y_tr)} training stones, {len(y_va)} validation stones")

    model = SpectrumNet(len(CLASSES))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-2)
    epochs = 14
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    for epoch in range(epochs):
        model.train()
        running = 0.0
        for x, y in train_loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            running += loss.item() * len(y)
        scheduler.step()
        val_loss, acc, bal = evaluate(model, val_loader)
        print(f"epoch {epoch + 1:2d}  train loss {running / len(y_tr):.3f}  val loss {val_loss:.3f}  "
              f"val accuracy {acc:.3f}  balanced {bal:.3f}")


if __name__ == "__main__":
    main()
