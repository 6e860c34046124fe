import json
import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

ACTIVITIES = ["sit", "walk", "stairs", "cycle"]


def windows(path):
    part = np.load(path)
    x = torch.from_numpy(part["signal"].astype(np.float32)).transpose(1, 2)
    y = torch.from_numpy(part["activity"].astype(np.int64))
    return x, y


class Standardize(nn.Module):
    def __init__(self, x):
        super().__init__()
        self.register_buffer("mean", x.mean(dim=(0, 2), keepdim=True))
        self.register_buffer("std", x.std(dim=(0, 2), keepdim=True))

    def forward(self, x):
        return (x - self.mean) / self.std


class ConvGRU(nn.Module):
    def __init__(self, channels, classes):
        super().__init__()
        self.conv = nn.Conv1d(channels, 24, 5, stride=2, padding=2)
        self.gru = nn.GRU(24, 32, batch_first=True)
        self.drop = nn.Dropout(0.2)
        self.out = nn.Linear(32, classes)

    def forward(self, x):
        h = torch.relu(self.conv(x)).transpose(1, 2)
        h, _ = self.gru(h)
        return self.out(self.drop(h.mean(1)))


def confusion(model, loader):
    model.eval()
    table = torch.zeros(len(ACTIVITIES), len(ACTIVITIES), dtype=torch.long)
    with torch.inference_mode():
        for x, y in loader:
            for t, p in zip(y, model(x).argmax(1)):
                table[t, p] += 1
    return table


def macro_f1(table):
    tp = table.diag().double()
    return (2 * tp / (table.sum(0) + table.sum(1)).clamp(min=1)).mean().item()


def main(folder):
    torch.manual_seed(2)
    x, y = windows(folder / "subjects_01_14.npz")
    vx, vy = windows(folder / "subjects_15_20.npz")
    model = nn.Sequential(Standardize(x), ConvGRU(x.shape[1], len(ACTIVITIES)))
    loader = DataLoader(TensorDataset(x, y), 64, shuffle=True)
    valid = DataLoader(TensorDataset(vx, vy), 256)
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    history = []
    for epoch in range(6):
        model.train()
        for bx, by in loader:
            loss = nn.functional.cross_entropy(model(bx), by)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            opt.step()
        history.append({"epoch": epoch, "loss": round(loss.item(), 4), "f1": round(macro_f1(confusion(model, valid)), 4)})
        print(json.dumps(history[-1]))
    print("macro F1", history[-1]["f1"])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
