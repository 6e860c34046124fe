"""ECG beat classes from long recordings (memory-mapped) and beat annotation files."""
import csv
import json

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

BEFORE, AFTER = 36, 60
SYMBOLS = ["N", "S", "V", "F"]


def read_annotations(path):
    with open(path, newline="") as f:
        rows = list(csv.DictReader(f))
    return [(int(r["sample"]), r["symbol"]) for r in rows]


class Beats(Dataset):
    def __init__(self, records, meta):
        self.signal = np.memmap("signals.dat", dtype=np.int16, mode="r",
                                shape=(meta["n_records"], meta["n_samples"]))
        self.gain = meta["gain"]
        self.items = []
        for rec in records:
            for sample, symbol in read_annotations(f"ann/{rec['name']}.csv"):
                if sample >= BEFORE and sample + AFTER <= meta["n_samples"]:
                    self.items.append((rec["row"], sample, SYMBOLS.index(symbol)))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        row, sample, label = self.items[i]
        beat = self.signal[row, sample - BEFORE:sample + AFTER].astype(np.float32) / self.gain
        beat = (beat - beat.mean()) / (beat.std() + 1e-3)
        return torch.from_numpy(beat)[None], label

    def class_counts(self):
        return np.bincount([i[2] for i in self.items], minlength=len(SYMBOLS))


class BeatNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv1d(1, 12, 9, stride=2, padding=4), nn.BatchNorm1d(12), nn.ReLU(),
            nn.Conv1d(12, 24, 7, stride=2, padding=3), nn.BatchNorm1d(24), nn.ReLU(),
            nn.Conv1d(24, 24, 5, stride=2, padding=2), nn.BatchNorm1d(24), nn.ReLU(),
        )
        self.fc = nn.Linear(24 * 12, len(SYMBOLS))

    def forward(self, x):
        return self.fc(self.conv(x).flatten(1))


class Trainer:
    def __init__(self, train, valid, epochs=6):
        self.train_loader = DataLoader(train, batch_size=64, shuffle=True, drop_last=True)
        self.valid_loader = DataLoader(valid, batch_size=256)
        counts = train.class_counts()
        weight = torch.tensor(np.sqrt(counts.sum() / counts), dtype=torch.float32)
        self.criterion = nn.CrossEntropyLoss(weight=weight)
        self.model = BeatNet()
        self.opt = torch.optim.AdamW(self.model.parameters(), lr=2e-3, weight_decay=1e-2)
        self.sched = torch.optim.lr_scheduler.CosineAnnealingLR(self.opt, epochs)
        self.epochs = epochs

    def run_epoch(self):
        self.model.train()
        total = 0.0
        for x, y in self.train_loader:
            self.opt.zero_grad()
            loss = self.criterion(self.model(x), y)
            loss.backward()
            self.opt.step()
            total += loss.item()
        self.sched.step()
        return total / len(self.train_loader)

    @torch.no_grad()
    def confusion(self):
        self.model.eval()
        table = np.zeros((len(SYMBOLS), len(SYMBOLS)), dtype=int)
        for x, y in self.valid_loader:
            np.add.at(table, (y.numpy(), self.model(x).argmax(1).numpy()), 1)
        return table

    def fit(self):
        for epoch in range(1, self.epochs + 1):
            loss = self.run_epoch()
            table = self.confusion()
            tp = np.diag(table)
            f1 = 2 * tp / np.maximum(table.sum(0) + table.sum(1), 1)
            print(f"epoch {epoch:2d}  train loss {loss:.4f}  val acc {tp.sum() / table.sum():.4f}  "
                  f"val macro F1 {f1.mean():.4f}")
        print("confusion (rows = annotation)\n", table)


if __name__ == "__main__":
    torch.manual_seed(0)
    with open("records.json") as f:
        meta = json.load(f)
    train = Beats([r for r in meta["records"] if r["split"] == "train"], meta)
    valid = Beats([r for r in meta["records"] if r["split"] == "valid"], meta)
    print(f"{len(train)} train beats {dict(zip(SYMBOLS, train.class_counts().tolist()))}, {len(valid)} valid beats")
    Trainer(train, valid).fit()
