"""Readmission within 30 days from admission record and laboratory values."""
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import torch
import yaml
from sklearn.metrics import roc_auc_score
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def load(folder):
    admissions = pd.read_csv(folder / "admissions.csv", dtype={"patient_id": str})
    labs = pd.read_csv(folder / "labs.csv", dtype={"patient_id": str})
    wide = labs.pivot_table(index="patient_id", columns="test", values="value", aggfunc="mean").reset_index()
    table = admissions.merge(wide, on="patient_id", how="left")
    return table.drop(columns=["patient_id", "readmitted"]), table["readmitted"].to_numpy(np.float32)


class Preprocess:
    def fit(self, frame):
        self.median = frame.median()
        filled = frame.fillna(self.median)
        self.mean, self.std = filled.mean(), filled.std() + 1e-6
        return self

    def __call__(self, frame):
        scaled = (frame.fillna(self.median) - self.mean) / self.std
        return torch.from_numpy(np.hstack([scaled, frame.isna()]).astype(np.float32))


def make_model(d, width, dropout):
    return nn.Sequential(nn.Linear(d, width), nn.ReLU(), nn.Dropout(dropout), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1), nn.Flatten(0))


def train_epoch(model, loader, opt, loss_fn):
    model.train()
    total = 0.0
    for x, y in loader:
        opt.zero_grad()
        loss = loss_fn(model(x), y)
        loss.backward()
        opt.step()
        total += loss.item() * len(y)
    return total / len(loader.dataset)


def auc(model, x, y):
    model.eval()
    with torch.no_grad():
        return roc_auc_score(y, model(x).numpy())


def main(folder):
    cfg = yaml.safe_load((folder / "model.yaml").read_text())
    torch.manual_seed(cfg["seed"])
    frame, target = load(folder)
    order = np.random.default_rng(cfg["seed"]).permutation(len(frame))
    tr, va, te = np.split(order, [int(0.7 * len(order)), int(0.85 * len(order))])
    prep = Preprocess().fit(frame.iloc[tr])
    x = {k: prep(frame.iloc[r]) for k, r in (("tr", tr), ("va", va), ("te", te))}
    loader = DataLoader(TensorDataset(x["tr"], torch.from_numpy(target[tr])), batch_size=cfg["batch_size"], shuffle=True)
    model = make_model(x["tr"].shape[1], cfg["width"], cfg["dropout"])
    opt = torch.optim.AdamW(model.parameters(), lr=cfg["lr"], weight_decay=cfg["weight_decay"])
    best, kept = 0.0, None
    for epoch in range(1, cfg["epochs"] + 1):
        loss = train_epoch(model, loader, opt, nn.BCEWithLogitsLoss())
        valid = auc(model, x["va"], target[va])
        if valid > best:
            best, kept = valid, {k: v.clone() for k, v in model.state_dict().items()}
        if epoch % 3 == 0:
            print(f"epoch {epoch} loss {loss:.4f} valid auc {valid:.4f}")
    model.load_state_dict(kept)
    print(f"test auc {auc(model, x['te'], target[te]):.4f}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
