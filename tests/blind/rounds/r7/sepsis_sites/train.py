"""In-hospital mortality from admission vitals, pooled over the sites of the registry."""
import csv
import sys
from pathlib import Path

import torch
import torch.nn as nn

FEATURES = ["age", "heart_rate", "sys_bp", "temp_c", "lactate", "wbc", "creatinine", "resp_rate"]


def read_admissions(path):
    x, y = [], []
    with open(path, newline="") as fh:
        for row in csv.DictReader(fh):
            x.append([float(row[f]) for f in FEATURES])
            y.append(float(row["outcome"] == "1"))
    return torch.tensor(x), torch.tensor(y)


def auroc(score, y):
    pos, neg = score[y == 1], score[y == 0]
    diff = pos[:, None] - neg[None, :]
    return ((diff > 0).float() + 0.5 * (diff == 0).float()).mean().item()


def main(folder):
    torch.manual_seed(1)
    xt, yt = read_admissions(folder / "admissions_train.csv")
    xv, yv = read_admissions(folder / "admissions_val.csv")
    mean, std = xt.mean(0), xt.std(0)
    xt, xv = (xt - mean) / std, (xv - mean) / std
    print(f"{len(xt)} admissions for training, {len(xv)} for validation")

    model = nn.Sequential(nn.Linear(len(FEATURES), 24), nn.ReLU(), nn.Dropout(0.1), nn.Linear(24, 1))
    opt = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=1e-2)
    bce = nn.BCEWithLogitsLoss()
    for epoch in range(1, 21):
        model.train()
        total = 0.0
        for idx in torch.randperm(len(xt)).split(64):
            loss = bce(model(xt[idx]).squeeze(1), yt[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(idx)
        if epoch % 4 == 0 or epoch == 1:
            model.eval()
            with torch.no_grad():
                logit = model(xv).squeeze(1)
            print(f"epoch {epoch:2d} train bce {total / len(xt):.4f} "
                  f"val bce {bce(logit, yv).item():.4f} val auroc {auroc(logit, yv):.4f}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
