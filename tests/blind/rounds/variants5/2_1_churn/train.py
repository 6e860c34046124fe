import argparse
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

TARGET = "churned"


@dataclass
class Options:
    batch_size: int
    accumulate: int
    epochs: int
    lr: float
    hidden: int
    seed: int


class ChurnModel(nn.Module):
    def __init__(self, n_in, hidden):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(n_in, hidden), nn.SiLU(), nn.Linear(hidden, hidden), nn.SiLU(), nn.Linear(hidden, 1))

    def forward(self, x):
        return self.net(x)[:, 0]


class Trainer:
    def __init__(self, model, options):
        self.model, self.o = model, options
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=options.lr, weight_decay=1e-3)
        self.criterion = nn.BCEWithLogitsLoss()

    def epoch(self, loader):
        self.model.train()
        self.optimizer.zero_grad()
        total = 0.0
        for step, (x, y) in enumerate(loader, start=1):
            loss = self.criterion(self.model(x), y)
            (loss / self.o.accumulate).backward()
            total += loss.item()
            if step % self.o.accumulate == 0:
                self.optimizer.step()
                self.optimizer.zero_grad()
        return total / len(loader)

    @torch.no_grad()
    def auc(self, x, y):
        self.model.eval()
        return roc_auc_score(y.numpy(), self.model(x).numpy())

    def fit(self, loader, valid):
        for e in range(self.o.epochs):
            loss = self.epoch(loader)
            if (e + 1) % 5 == 0:
                print(f"epoch {e + 1:3d}  loss {loss:.4f}  valid auc {self.auc(*valid):.4f}")


def load(folder):
    table = pd.read_csv(folder / "customers.csv").drop(columns="customer_id")
    table = pd.get_dummies(table, columns=["contract", "payment"], dtype=float)
    return table.drop(columns=TARGET).to_numpy(np.float32), table[TARGET].to_numpy(np.float32)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("folder", type=Path)
    folder = ap.parse_args().folder
    options = Options(**json.loads((folder / "options.json").read_text()))
    torch.manual_seed(options.seed)
    x, y = load(folder)
    x_fit, x_test, y_fit, y_test = train_test_split(x, y, test_size=0.2, random_state=options.seed, stratify=y)
    x_fit, x_val, y_fit, y_val = train_test_split(x_fit, y_fit, test_size=0.2, random_state=options.seed, stratify=y_fit)
    scaler = StandardScaler().fit(x_fit)
    tensors = [(torch.from_numpy(scaler.transform(a).astype(np.float32)), torch.from_numpy(b))
               for a, b in ((x_fit, y_fit), (x_val, y_val), (x_test, y_test))]
    loader = DataLoader(TensorDataset(*tensors[0]), batch_size=options.batch_size, shuffle=True)
    trainer = Trainer(ChurnModel(x.shape[1], options.hidden), options)
    trainer.fit(loader, tensors[1])
    print(f"test auc {trainer.auc(*tensors[2]):.4f}")


if __name__ == "__main__":
    main()
