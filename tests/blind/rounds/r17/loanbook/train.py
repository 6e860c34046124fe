import csv, sys, pathlib
import torch
from torch import nn

FEATURES = ["age", "income", "loan_amount", "term_months", "utilisation_pct", "months_since_late", "open_lines"]


def read(*paths):
    x, y = [], []
    for p in paths:
        for row in csv.DictReader(open(p)):
            x.append([float(row[c]) if row[c] != "" else float("nan") for c in FEATURES])
            y.append(float(row["default"]))
    return torch.tensor(x), torch.tensor(y)


class Prepare:
    """Median imputation with a flag, logs for money, z-scores; fitted on the training years."""

    def __init__(self, x):
        self.median = x.nanmedian(0).values
        z = self.fill(x)
        self.mean, self.std = z.mean(0), z.std(0)

    def fill(self, x):
        x = torch.where(torch.isnan(x), self.median, x).clone()
        x[:, 1:3] = x[:, 1:3].log()
        return x

    def __call__(self, x):
        flag = torch.isnan(x[:, 4:5]).float()
        return torch.cat([(self.fill(x) - self.mean) / self.std, flag], 1)


def auc(score, y):
    rank = torch.empty(len(score), dtype=torch.double)
    rank[score.argsort()] = torch.arange(1, len(score) + 1, dtype=torch.double)
    pos = y.sum().item()
    return ((rank[y == 1].sum() - pos * (pos + 1) / 2) / (pos * (len(y) - pos))).item()


def run(root):
    torch.manual_seed(42)
    root = pathlib.Path(root)
    xtr, ytr = read(root / "applications_2021.csv", root / "applications_2022.csv")
    xte, yte = read(root / "applications_2023.csv")
    prep = Prepare(xtr)
    xtr, xte = prep(xtr), prep(xte)
    model = nn.Sequential(nn.Linear(8, 24), nn.Tanh(), nn.Linear(24, 1), nn.Flatten(0))
    optim = torch.optim.Adam(model.parameters(), lr=5e-3)
    for epoch in range(10):
        perm = torch.randperm(len(xtr))
        tot = 0.
        for k in range(0, len(perm), 100):
            b = perm[k:k + 100]
            loss = nn.functional.binary_cross_entropy_with_logits(model(xtr[b]), ytr[b])
            optim.zero_grad(); loss.backward(); optim.step()
            tot += loss.item() * len(b)
        print("epoch", epoch, "logloss", round(tot / len(perm), 4))
    with torch.no_grad():
        print("AUC 2023:", round(auc(model(xte), yte), 4), " default rate:", round(yte.mean().item(), 3))


run(sys.argv[1])
