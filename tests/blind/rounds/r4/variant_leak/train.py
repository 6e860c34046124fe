"""Variant pathogenicity from annotation features. python train.py FOLDER"""
import json
import sys
from pathlib import Path
import numpy as np
import torch
from torch import nn

FOLDER = Path(__file__).parent / sys.argv[1]
CFG = dict(hidden=32, lr=2e-3, epochs=20, batch=50, seed=1)


def load(name, columns):
    d = np.load(FOLDER / name)
    x = np.stack([d[c] for c in columns], 1).astype(np.float32)
    return torch.from_numpy(x), torch.from_numpy(d["pathogenic"].astype(np.float32))


def auroc(score, y):
    pos, neg = score[y == 1], score[y == 0]
    gt = (pos[:, None] > neg[None]).float() + 0.5 * (pos[:, None] == neg[None]).float()
    return gt.mean().item()


class Classifier(nn.Module):
    def __init__(self, d, mean, std):
        super().__init__()
        self.register_buffer("mean", mean)
        self.register_buffer("std", std)
        self.net = nn.Sequential(nn.Linear(d, CFG["hidden"]), nn.ReLU(), nn.Dropout(0.2), nn.Linear(CFG["hidden"], 1))

    def forward(self, x):
        return self.net((x - self.mean) / self.std).squeeze(1)


@torch.no_grad()
def score(model, x, y):
    model.eval()
    return auroc(model(x), y)


def main():
    torch.manual_seed(CFG["seed"])
    columns = json.loads((FOLDER / "columns.json").read_text())["features"]
    x, y = load("variants.npz", columns)
    new_x, new_y = load("new_variants.npz", columns)
    perm = torch.randperm(len(x))
    va, tr = perm[:300], perm[300:]
    model = Classifier(len(columns), x[tr].mean(0), x[tr].std(0))
    opt = torch.optim.Adam(model.parameters(), lr=CFG["lr"], weight_decay=1e-4)
    lossf = nn.BCEWithLogitsLoss()
    for epoch in range(CFG["epochs"]):
        model.train()
        total = 0.0
        for idx in tr[torch.randperm(len(tr))].split(CFG["batch"]):
            loss = lossf(model(x[idx]), y[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(idx)
        print(f"epoch {epoch:2d} loss {total / len(tr):.4f} val AUROC {score(model, x[va], y[va]):.4f}")
    print(f"val AUROC {score(model, x[va], y[va]):.3f} newly reported variants AUROC {score(model, new_x, new_y):.3f}")


if __name__ == "__main__":
    main()
