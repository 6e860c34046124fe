import csv
import sys
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split

NUMERIC = ["age", "bmi", "glucose", "hba1c", "creatinine", "systolic_bp", "n_visits"]
EPOCHS = 9


class CohortTable:
    """All hospital exports (one csv each) in one table."""

    def __init__(self, folder):
        rows = []
        for path in sorted(Path(folder).glob("hospital_*.csv")):
            with open(path, newline="") as fh:
                rows += list(csv.DictReader(fh))
        self.x = torch.tensor([[float(r[c]) for c in NUMERIC] + [float(r["sex"] == "F")] for r in rows])
        self.y = torch.tensor([float(r["readmitted"]) for r in rows])

    def __len__(self):
        return len(self.y)


def auc(score, label):
    rank = torch.empty_like(score)
    rank[score.argsort()] = torch.arange(1, len(score) + 1, dtype=score.dtype)
    pos = label.sum()
    neg = len(label) - pos
    return ((rank[label == 1].sum() - pos * (pos + 1) / 2) / (pos * neg)).item()


class Standardizer:
    def __init__(self, x):
        self.mean, self.std = x.mean(0), x.std(0)

    def __call__(self, x):
        return (x - self.mean) / self.std


def main():
    torch.manual_seed(17)
    table = CohortTable(sys.argv[1])
    n_val = len(table) // 4
    index = torch.randperm(len(table))
    val, train = index[:n_val], index[n_val:]

    scale = Standardizer(table.x[train])
    loader = DataLoader(TensorDataset(scale(table.x[train]), table.y[train]), batch_size=64, shuffle=True)
    x_val, y_val = scale(table.x[val]), table.y[val]

    model = nn.Sequential(
        nn.Linear(len(NUMERIC) + 1, 16), nn.ReLU(), nn.Dropout(0.1),
        nn.Linear(16, 1),
    )
    opt = torch.optim.Adam(model.parameters(), lr=5e-3, weight_decay=1e-5)
    loss_fn = nn.BCEWithLogitsLoss()

    best = 0.0
    for epoch in range(EPOCHS):
        model.train()
        for xb, yb in loader:
            loss = loss_fn(model(xb).squeeze(1), yb)
            opt.zero_grad()
            loss.backward()
            opt.step()
        model.eval()
        with torch.no_grad():
            logits = model(x_val).squeeze(1)
        score = auc(logits, y_val)
        best = max(best, score)
        if epoch % 3 == 2:
            print(f"epoch {epoch + 1:2d} val bce {loss_fn(logits, y_val):.4f} val auc {score:.4f}")
    print(f"val AUC after training: {score:.4f}")


if __name__ == "__main__":
    main()
