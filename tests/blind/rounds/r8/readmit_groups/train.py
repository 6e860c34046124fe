"""Thirty-day readmission score: small network, early stopping, report on next year's patients."""
import copy
import csv
import json
import os
import sys
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

folder = sys.argv[1]
MAX_EPOCHS, PATIENCE, BATCH = 60, 8, 64


def read(path):
    with open(path, newline="") as fh:
        rows = list(csv.reader(fh))
    header, body = rows[0], np.array(rows[1:], dtype=np.float32)
    keep = [i for i, name in enumerate(header) if name not in ("patient", "readmitted")]
    return torch.from_numpy(body[:, keep]), torch.from_numpy(body[:, header.index("readmitted")])


def auc(score, y):
    pos, neg = score[y == 1], score[y == 0].sort().values
    return (torch.searchsorted(neg, pos).double() / len(neg)).mean().item()


class RiskScore(nn.Module):
    def __init__(self, n_in, hidden=96):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(n_in, hidden), nn.ReLU(), nn.Dropout(0.1),
                                 nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1))

    def forward(self, x):
        return self.net(x).squeeze(1)


@torch.no_grad()
def evaluate(model, x, y):
    model.eval()
    logits = model(x)
    return F.binary_cross_entropy_with_logits(logits, y).item(), auc(logits, y)


def main():
    torch.manual_seed(0)
    x, y = read(os.path.join(folder, "admissions.csv"))
    x_next, y_next = read(os.path.join(folder, "next_year.csv"))
    split = json.load(open(os.path.join(folder, "split.json")))
    train, val = torch.tensor(split["train"]), torch.tensor(split["val"])
    mean, std = x[train].mean(0), x[train].std(0)
    x, x_next = (x - mean) / std, (x_next - mean) / std
    print(f"train {len(train)} val {len(val)} admissions, positive {y[train].mean():.2f} / {y[val].mean():.2f}")

    model = RiskScore(x.shape[1])
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4, weight_decay=1e-2)
    best, best_state, waited = float("inf"), None, 0
    for epoch in range(1, MAX_EPOCHS + 1):
        model.train()
        total = 0.0
        for idx in train[torch.randperm(len(train))].split(BATCH):
            loss = F.binary_cross_entropy_with_logits(model(x[idx]), y[idx])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(idx)
        val_loss, val_auc = evaluate(model, x[val], y[val])
        if epoch % 4 == 0:
            print(f"epoch {epoch}  train {total / len(train):.4f}  val {val_loss:.4f}  val auc {val_auc:.4f}")
        if val_loss < best:
            best, best_state, waited = val_loss, copy.deepcopy(model.state_dict()), 0
        else:
            waited += 1
            if waited == PATIENCE:
                break

    model.load_state_dict(best_state)
    val_loss, val_auc = evaluate(model, x[val], y[val])
    next_loss, next_auc = evaluate(model, x_next, y_next)
    print(f"stopped at epoch {epoch}; val loss {val_loss:.4f} auc {val_auc:.4f}; next year loss {next_loss:.4f} auc {next_auc:.4f}")


if __name__ == "__main__":
    main()
