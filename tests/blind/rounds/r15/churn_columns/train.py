#!/usr/bin/env python
# Churn model: history.csv to learn, today.csv is scored (the outcome became known later).
import csv
import sys
import torch

FOLDER = sys.argv[1]
COLUMNS = ["tenure_months", "monthly_fee", "calls", "data_gb", "support_tickets", "retention_offers"]


def load(name):
    with open(f"{FOLDER}/{name}.csv") as f:
        rows = list(csv.DictReader(f))
    X = torch.tensor([[float(r[c]) for c in COLUMNS] for r in rows])
    y = torch.tensor([float(r["churned"]) for r in rows])
    return X, y


def auc(score, y):
    order = score.argsort()
    rank = torch.empty_like(order, dtype=torch.float32)
    rank[order] = torch.arange(1, len(score) + 1, dtype=torch.float32)
    n1 = y.sum()
    n0 = len(y) - n1
    return ((rank[y == 1].sum() - n1 * (n1 + 1) / 2) / (n1 * n0)).item()


torch.manual_seed(20)
X, y = load("history")
cut = int(0.8 * len(X))
mu, sd = X[:cut].mean(0), X[:cut].std(0)
Z = (X - mu) / sd

model = torch.nn.Sequential(
    torch.nn.Linear(len(COLUMNS), 32),
    torch.nn.ReLU(),
    torch.nn.Dropout(0.1),
    torch.nn.Linear(32, 1),
)
optimizer = torch.optim.RMSprop(model.parameters(), lr=2e-3)
loss_fn = torch.nn.BCEWithLogitsLoss()

for epoch in range(40):
    model.train()
    perm = torch.randperm(cut)
    for i in range(0, cut, 60):
        j = perm[i:i + 60]
        optimizer.zero_grad()
        loss = loss_fn(model(Z[j]).squeeze(1), y[j])
        loss.backward()
        optimizer.step()
    if (epoch + 1) % 10 == 0:
        model.eval()
        with torch.no_grad():
            val = model(Z[cut:]).squeeze(1)
        print(f"epoch {epoch + 1} loss {loss.item():.3f} validation AUC {auc(val, y[cut:]):.3f}")

model.eval()
Xn, yn = load("today")
with torch.no_grad():
    s = model((Xn - mu) / sd).squeeze(1)
print(f"accuracy on today's customers {((s > 0).float() == yn).float().mean():.4f}")
print(f"AUC on today's customers {auc(s, yn):.4f}")
