"""Hotel booking cancellations: tabular network on the property's booking export."""
import csv

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

TARGET = "is_canceled"
DROP = {"booking_id"}
EPOCHS, BATCH, LR = 15, 64, 2e-3


def read_table(path):
    with open(path, newline="") as fh:
        rows = list(csv.DictReader(fh))
    columns = [c for c in rows[0] if c not in DROP and c != TARGET]
    y = np.array([float(r[TARGET]) for r in rows], dtype=np.float32)
    numeric, categorical = [], []
    for c in columns:
        try:
            [float(r[c]) for r in rows]
            numeric.append(c)
        except ValueError:
            categorical.append(c)
    return rows, numeric, categorical, y


def encode(rows, numeric, categorical, levels, mean, std):
    num = np.array([[float(r[c]) for c in numeric] for r in rows], dtype=np.float64)
    num = (num - mean) / std
    hot = [np.array([[float(r[c] == v) for v in levels[c]] for r in rows]) for c in categorical]
    return np.concatenate([num] + hot, axis=1).astype(np.float32)


def auc(scores, y):
    ranks = np.empty(len(scores))
    ranks[np.argsort(scores)] = np.arange(1, len(scores) + 1)
    pos = y == 1
    n1, n0 = pos.sum(), (~pos).sum()
    return (ranks[pos].sum() - n1 * (n1 + 1) / 2) / (n1 * n0)


class CancelNet(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(d, 32), nn.ReLU(), nn.Dropout(0.1),
                                 nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, x):
        return self.net(x).squeeze(1)


def evaluate(model, loader):
    model.eval()
    loss_fn = nn.BCEWithLogitsLoss(reduction="sum")
    total, scores, truth = 0.0, [], []
    with torch.no_grad():
        for x, y in loader:
            out = model(x)
            total += loss_fn(out, y).item()
            scores.append(out.numpy())
            truth.append(y.numpy())
    scores, truth = np.concatenate(scores), np.concatenate(truth)
    return total / len(truth), auc(scores, truth), ((scores > 0) == (truth > 0.5)).mean()


def main():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    rows, numeric, categorical, y = read_table("data/bookings.csv")
    order = np.random.default_rng(0).permutation(len(rows))
    cut = int(0.8 * len(rows))
    tr, va = order[:cut], order[cut:]
    train_rows, val_rows = [rows[i] for i in tr], [rows[i] for i in va]
    raw = np.array([[float(r[c]) for c in numeric] for r in train_rows])
    mean, std = raw.mean(0), raw.std(0)
    levels = {c: sorted({r[c] for r in train_rows}) for c in categorical}
    x_tr = encode(train_rows, numeric, categorical, levels, mean, std)
    x_va = encode(val_rows, numeric, categorical, levels, mean, std)
    print(f"{len(tr)} train / {len(va)} val bookings, {x_tr.shape[1]} inputs, "
          f"cancellation rate {y[tr].mean():.3f}")

    train_loader = DataLoader(TensorDataset(torch.from_numpy(x_tr), torch.from_numpy(y[tr])),
                              batch_size=BATCH, shuffle=True)
    val_loader = DataLoader(TensorDataset(torch.from_numpy(x_va), torch.from_numpy(y[va])), batch_size=500)
    model = CancelNet(x_tr.shape[1])
    criterion = nn.BCEWithLogitsLoss()
    optimizer = torch.optim.AdamW(model.parameters(), lr=LR, weight_decay=1e-3)
    for epoch in range(1, EPOCHS + 1):
        model.train()
        running = 0.0
        for x, t in train_loader:
            optimizer.zero_grad()
            loss = criterion(model(x), t)
            loss.backward()
            optimizer.step()
            running += loss.item() * len(t)
        vl, va_auc, va_acc = evaluate(model, val_loader)
        print(f"epoch {epoch:2d} train {running / len(tr):.4f} val {vl:.4f} val AUC {va_auc:.4f} acc {va_acc:.4f}")
    return model, dict(numeric=numeric, categorical=categorical, levels=levels, mean=mean, std=std)


if __name__ == "__main__":
    main()
