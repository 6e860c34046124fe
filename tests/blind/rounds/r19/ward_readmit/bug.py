"""30-day readmission risk from discharge records."""
import argparse
import logging

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

log = logging.getLogger("readmit")


def load_stays(n_patients, seed):
    """One row per stay; a patient has several stays."""
    rng = np.random.default_rng(seed)
    rows = []
    stay_id = 0
    for pid in range(n_patients):
        age = rng.normal(64, 14)
        bmi = rng.normal(27, 5)
        chronic = rng.poisson(1.5)
        height = rng.normal(170, 9)
        creat0, hb0, na0 = rng.normal(1.1, 0.35), rng.normal(12.8, 1.6), rng.normal(139, 3)
        frailty = rng.normal(0, 1.7)
        for _ in range(rng.integers(4, 10)):
            los = rng.gamma(2, 2.5)
            creat, hb, na = creat0 + rng.normal(0, 0.03), hb0 + rng.normal(0, 0.15), na0 + rng.normal(0, 0.3)
            emergency, icu = rng.random() < 0.4, rng.random() < 0.15
            logit = (0.08 * (age - 64) + 1.0 * (chronic - 1.5) + 1.2 * (creat - 1.1) - 0.5 * (hb - 12.8)
                     + 1.6 * emergency + 1.6 * icu + 0.2 * (los - 5) - 1.1 + frailty)
            readmitted = rng.random() < 1 / (1 + np.exp(-1.5 * logit))
            rows.append((stay_id, pid, age, bmi, chronic, height, creat, hb, na, los, emergency, icu, readmitted))
            stay_id += 1
    table = np.array(rows, dtype=np.float64)
    table = table[rng.permutation(len(table))]
    return {
        "stay_id": table[:, 0].astype(int),
        "patient_id": table[:, 1].astype(int),
        "x": table[:, 2:-1].astype(np.float32),
        "y": table[:, -1].astype(np.float32),
    }


def split_by_key(keys, val_fraction, seed):
    unique = np.unique(keys)
    np.random.default_rng(seed).shuffle(unique)
    held_out = unique[:int(len(unique) * val_fraction)]
    is_val = np.isin(keys, held_out)
    return np.where(~is_val)[0], np.where(is_val)[0]


class RiskModel(nn.Module):
    def __init__(self, n_features, hidden=256, dropout=0.1):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(n_features, hidden), nn.ReLU(), nn.Dropout(dropout),
            nn.Linear(hidden, hidden), nn.ReLU(), nn.Dropout(dropout),
            nn.Linear(hidden, 1),
        )

    def forward(self, x):
        return self.layers(x).squeeze(-1)


def roc_auc(scores, labels):
    order = np.argsort(scores, kind="stable")
    ranks = np.empty(len(scores))
    ranks[order] = np.arange(1, len(scores) + 1)
    n_pos = labels.sum()
    n_neg = len(labels) - n_pos
    return (ranks[labels == 1].sum() - n_pos * (n_pos + 1) / 2) / (n_pos * n_neg)


def evaluate(model, x, y):
    model.eval()
    with torch.no_grad():
        p = torch.sigmoid(model(x)).numpy()
    return roc_auc(p, y.numpy())


def parse_args():
    p = argparse.ArgumentParser()
    p.add_argument("--patients", type=int, default=600)
    p.add_argument("--epochs", type=int, default=36)
    p.add_argument("--batch-size", type=int, default=64)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--weight-decay", type=float, default=1e-4)
    p.add_argument("--seed", type=int, default=11)
    return p.parse_args()


def main():
    args = parse_args()
    logging.basicConfig(level=logging.INFO, format="%(name)s: %(message)s")
    torch.manual_seed(args.seed)
    stays = load_stays(args.patients, args.seed)
    train_idx, val_idx = split_by_key(stays["stay_id"], 0.25, args.seed)
    log.info("%d stays for training, %d for validation", len(train_idx), len(val_idx))

    mean, std = stays["x"][train_idx].mean(0), stays["x"][train_idx].std(0)
    x = torch.from_numpy((stays["x"] - mean) / std)
    y = torch.from_numpy(stays["y"])
    loader = DataLoader(TensorDataset(x[train_idx], y[train_idx]), batch_size=args.batch_size, shuffle=True)

    model = RiskModel(x.shape[1])
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=args.weight_decay)
    loss_fn = nn.BCEWithLogitsLoss()
    for epoch in range(args.epochs):
        model.train()
        total = 0.0
        for xb, yb in loader:
            opt.zero_grad()
            loss = loss_fn(model(xb), yb)
            loss.backward()
            opt.step()
            total += loss.item() * len(yb)
        if epoch % 5 == 4:
            log.info("epoch %d loss %.4f val_auc %.4f", epoch + 1, total / len(train_idx),
                     evaluate(model, x[val_idx], y[val_idx]))
    print(f"validation AUC {evaluate(model, x[val_idx], y[val_idx]):.4f}")


if __name__ == "__main__":
    main()
