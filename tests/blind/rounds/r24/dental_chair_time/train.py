import csv
import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(0)
folder = Path(sys.argv[1])
PROCEDURES = ["filling", "endo", "extraction", "crown", "scaling"]
NUMERIC = ["age", "anxiety", "surfaces", "assistant", "dentist_years"]


class Visits(Dataset):
    """Past appointments; the target is the time spent in the chair."""

    def __init__(self, path, stats=None):
        with open(path, newline="") as f:
            rows = list(csv.DictReader(f))
        self.tooth = torch.tensor([int(r["tooth"]) for r in rows])
        self.proc = torch.tensor([PROCEDURES.index(r["procedure"]) for r in rows])
        num = np.array([[float(r[c]) for c in NUMERIC] for r in rows], dtype=np.float32)
        minutes = np.array([float(r["chair_minutes"]) for r in rows], dtype=np.float32)
        self.stats = stats or (num.mean(0), num.std(0), minutes.mean(), minutes.std())
        self.num = torch.from_numpy((num - self.stats[0]) / self.stats[1])
        self.y = torch.from_numpy((minutes - self.stats[2]) / self.stats[3])

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.tooth[i], self.proc[i], self.num[i], self.y[i]


class ChairTime(nn.Module):
    def __init__(self, dim=12, hidden=64):
        super().__init__()
        self.tooth = nn.Embedding(49, dim)
        self.proc = nn.Embedding(len(PROCEDURES), 6)
        self.body = nn.Sequential(nn.Linear(dim + 6 + len(NUMERIC), hidden), nn.ReLU(),
                                  nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1))

    def forward(self, tooth, proc, num):
        return self.body(torch.cat([self.tooth(tooth), self.proc(proc), num], 1)).squeeze(1)


train = Visits(folder / "visits_2022_2023.csv")
valid = Visits(folder / "visits_2024.csv", train.stats)
train_dl = DataLoader(train, batch_size=64, shuffle=True)
valid_dl = DataLoader(valid, batch_size=256)

model = ChairTime()
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-2)
criterion = nn.SmoothL1Loss()
EPOCHS = 25
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS)

for epoch in range(EPOCHS):
    model.train()
    losses = []
    for tooth, proc, num, y in train_dl:
        optimizer.zero_grad()
        loss = criterion(model(tooth, proc, num), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    scheduler.step()

    model.eval()
    miss = []
    with torch.no_grad():
        for tooth, proc, num, y in valid_dl:
            miss.append((model(tooth, proc, num) - y).abs())
    mae = torch.cat(miss).mean().item() * float(train.stats[3])
    if epoch % 3 == 0 or epoch == EPOCHS - 1:
        print(f"epoch {epoch:2d}  train loss {np.mean(losses):.4f}  valid MAE {mae:.2f} min")
