import argparse
import json
import os
from types import SimpleNamespace

import numpy as np
import pandas as pd
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def load_settings(folder):
    with open(os.path.join(folder, "settings.json")) as handle:
        return json.load(handle, object_hook=lambda d: SimpleNamespace(**d))


class Molecules:
    def __init__(self, folder, settings):
        table = pd.read_csv(os.path.join(folder, "molecules.csv"))
        table = table.sample(frac=1.0, random_state=settings.seed).reset_index(drop=True)
        n_test = int(0.15 * len(table))
        self.test, self.valid = table[:n_test], table[n_test:2 * n_test]
        self.train = table[2 * n_test:]
        if settings.debug.max_rows:
            self.train = self.train[:settings.debug.max_rows]
        self.columns = [c for c in table if c not in ("name", "log_s")]
        self.mean, self.std = self.train[self.columns].mean(), self.train[self.columns].std() + 1e-6
        self.ym, self.ys = self.train["log_s"].mean(), self.train["log_s"].std()

    def tensors(self, table):
        x = ((table[self.columns] - self.mean) / self.std).to_numpy(np.float32)
        y = ((table["log_s"] - self.ym) / self.ys).to_numpy(np.float32)
        return torch.from_numpy(x), torch.from_numpy(y)


class Regressor(nn.Module):
    def __init__(self, d, width, p):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(d, width), nn.ELU(), nn.Dropout(p), nn.Linear(width, width), nn.ELU(), nn.Dropout(p), nn.Linear(width, 1))

    def forward(self, x):
        return self.net(x).flatten()


def mae(model, mol, table):
    x, y = mol.tensors(table)
    model.eval()
    with torch.no_grad():
        return (model(x) - y).abs().mean().item() * mol.ys


def fit(model, mol, settings):
    loader = DataLoader(TensorDataset(*mol.tensors(mol.train)), batch_size=settings.optim.batch_size, shuffle=True)
    opt = torch.optim.AdamW(model.parameters(), lr=settings.optim.lr, weight_decay=settings.optim.weight_decay)
    best, state = float("inf"), None
    for epoch in range(settings.optim.epochs):
        model.train()
        total = n = 0
        for x, y in loader:
            loss = nn.functional.smooth_l1_loss(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total, n = total + loss.item() * len(y), n + len(y)
        valid = mae(model, mol, mol.valid)
        if valid < best:
            best, state = valid, {k: v.clone() for k, v in model.state_dict().items()}
        if epoch % 5 == 4:
            print(f"epoch {epoch + 1} loss {total / n:.4f} valid mae {valid:.4f}")
    model.load_state_dict(state)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    folder = parser.parse_args().folder
    settings = load_settings(folder)
    torch.manual_seed(settings.seed)
    mol = Molecules(folder, settings)
    model = Regressor(len(mol.columns), settings.model.width, settings.model.dropout)
    fit(model, mol, settings)
    print(f"test mae {mae(model, mol, mol.test):.4f}")
