"""Which orders will be sent back? Trained on the settled months; scored on the open month at the time of shipping (labels came in later)."""
import csv
import json
import pathlib
import sys

import torch
import torch.nn as nn


class Encoder:
    def __init__(self, spec, rows):
        self.spec = spec
        self.levels = {c: sorted({r[c] for r in rows}) for c in spec["categorical"]}
        raw = self.numbers(rows)
        self.mu, self.sd = raw.mean(0), raw.std(0)

    def numbers(self, rows):
        return torch.tensor([[float(r[c]) for c in self.spec["numeric"]] for r in rows])

    def __call__(self, rows):
        parts = [(self.numbers(rows) - self.mu) / self.sd]
        for c, lv in self.levels.items():
            code = torch.tensor([lv.index(r[c]) for r in rows])
            parts.append(nn.functional.one_hot(code, len(lv)).float())
        return torch.cat(parts, 1), torch.tensor([float(r["returned"]) for r in rows])


def auc(score, y):
    rank = score.argsort().argsort().double() + 1
    pos = y.sum().item()
    return ((rank[y > 0].sum() - pos * (pos + 1) / 2) / (pos * (len(y) - pos))).item()


def main(folder):
    spec = json.loads((folder / "features.json").read_text())
    torch.manual_seed(spec["seed"])
    rows = list(csv.DictReader((folder / "orders_export.csv").open()))
    live = list(csv.DictReader((folder / "scoring_2024-05.csv").open()))
    fit = [r for r in rows if r["month"] != spec["validation_month"]]
    val = [r for r in rows if r["month"] == spec["validation_month"]]
    enc = Encoder(spec, fit)
    (x, y), (xv, yv), (xl, yl) = enc(fit), enc(val), enc(live)
    model = nn.Sequential(nn.Linear(x.shape[1], 32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 1))
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-2)
    bce = nn.BCEWithLogitsLoss()
    for epoch in range(20):
        model.train()
        for idx in torch.randperm(len(x)).split(64):
            opt.zero_grad()
            loss = bce(model(x[idx]).squeeze(1), y[idx])
            loss.backward()
            opt.step()
        if epoch % 4 == 3:
            model.eval()
            with torch.no_grad():
                s = model(xv).squeeze(1)
            print(f"epoch {epoch + 1}: validation loss {bce(s, yv):.4f} AUC {auc(s, yv):.4f}")
    model.eval()
    with torch.no_grad():
        s = model(xl).squeeze(1)
    print(f"open month: loss {bce(s, yl):.4f} AUC {auc(s, yl):.4f}")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
