import argparse
from pathlib import Path

import numpy as np
import pandas as pd
import torch
import yaml
from torch import nn

FEATURES = ["income", "debt_ratio", "utilisation", "late_30d", "late_90d", "open_lines", "age", "employment_years",
            "inquiries", "loan_amount", "term_months", "savings"]


class Portfolio:
    def __init__(self, folder, manifest):
        self.folder, self.manifest = folder, manifest

    def frame(self, part):
        return pd.concat([pd.read_csv(self.folder / "parts" / name) for name in self.manifest[part]], ignore_index=True)

    def tensors(self):
        frames = {p: self.frame(p) for p in ("train", "valid", "test")}
        ref = frames["train"][FEATURES]
        mean, std = ref.mean(), ref.std()
        return {p: (torch.tensor(((f[FEATURES] - mean) / std).to_numpy(np.float32)), torch.tensor(f["default"].to_numpy(np.float32)))
                for p, f in frames.items()}


class ResidualMLP(nn.Module):
    def __init__(self, d, width, depth):
        super().__init__()
        self.inp = nn.Linear(d, width)
        self.blocks = nn.ModuleList(nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.GELU(), nn.Linear(width, width)) for _ in range(depth))
        self.out = nn.Linear(width, 1)

    def forward(self, x):
        h = self.inp(x)
        for block in self.blocks:
            h = h + block(h)
        return self.out(h).squeeze(1)


def auc(score, y):
    order = score.argsort()
    ranks = torch.empty(len(score))
    ranks[order] = torch.arange(1, len(score) + 1, dtype=torch.float32)
    pos = y.sum()
    return ((ranks[y == 1].sum() - pos * (pos + 1) / 2) / (pos * (len(y) - pos))).item()


def main(folder):
    cfg = yaml.safe_load((folder / "run.yaml").read_text())
    torch.manual_seed(cfg["seed"])
    data = Portfolio(folder, cfg["files"]).tensors()
    x, y = data["train"]
    net = ResidualMLP(len(FEATURES), cfg["width"], cfg["depth"])
    opt = torch.optim.AdamW(net.parameters(), lr=cfg["lr"], weight_decay=cfg["weight_decay"])

    def score(part):
        net.eval()
        with torch.no_grad():
            return auc(net(data[part][0]), data[part][1])

    best, keep = 0.0, None
    for epoch in range(1, cfg["epochs"] + 1):
        net.train()
        total = 0.0
        for rows in torch.randperm(len(y)).split(cfg["batch_size"]):
            loss = nn.functional.binary_cross_entropy_with_logits(net(x[rows]), y[rows])
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(rows)
        valid = score("valid")
        if valid > best:
            best, keep = valid, {k: v.clone() for k, v in net.state_dict().items()}
        if epoch % 5 == 0:
            print(f"epoch {epoch} loss {total / len(y):.4f} valid auc {valid:.4f}")
    net.load_state_dict(keep)
    print(f"test auc {score('test'):.4f}")


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("folder", type=Path)
    main(ap.parse_args().folder)
