"""Cumulative-logit network for verbal hotel ratings."""
import argparse
import csv
import json
import pathlib

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Ordinal(nn.Module):
    """P(y > k) = sigmoid(score - cut_k), with increasing cuts."""

    def __init__(self, d, levels):
        super().__init__()
        self.score = nn.Sequential(nn.Linear(d, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1))
        self.first = nn.Parameter(torch.tensor(-1.5))
        self.gaps = nn.Parameter(torch.zeros(levels - 2))

    def cuts(self):
        return torch.cat([self.first.view(1), self.first + nn.functional.softplus(self.gaps).cumsum(0)])

    def forward(self, x):
        return self.score(x) - self.cuts()

    def predict(self, x):
        above = torch.sigmoid(self(x))
        one, zero = torch.ones(len(x), 1), torch.zeros(len(x), 1)
        return (torch.cat([one, above], 1) - torch.cat([above, zero], 1)).argmax(1)


def load(path, schema):
    rank = {w: i for i, w in enumerate(schema["levels"])}
    xs, ys = [], []
    with open(path) as f:
        for r in csv.DictReader(f):
            xs.append([float(r["cleanliness"]), float(r["street_noise"]), float(r["staff"]), (float(r["price"]) - 130) / 60, (float(r["km_centre"]) - 2.8) / 2,
                       float(r["wifi"]), float(r["nights"]) / 4 - 1, float(r["trip"] == "business"), float(r["trip"] == "family")])
            ys.append(rank[r[schema["target"]]])
    return torch.tensor(xs), torch.tensor(ys)


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("folder", type=pathlib.Path)
    ap.add_argument("--epochs", type=int, default=14)
    ap.add_argument("--lr", type=float, default=3e-3)
    args = ap.parse_args()
    torch.manual_seed(25)
    schema = json.loads((args.folder / "schema.json").read_text())
    K = len(schema["levels"])
    x, y = load(args.folder / "reviews_train.csv", schema)
    xt, yt = load(args.folder / "reviews_test.csv", schema)
    net = Ordinal(x.shape[1], K)
    opt = torch.optim.Adam(net.parameters(), lr=args.lr, weight_decay=1e-4)
    steps = torch.arange(K - 1)
    for epoch in range(1, args.epochs + 1):
        total = 0.0
        for xb, yb in DataLoader(TensorDataset(x, y), batch_size=60, shuffle=True):
            loss = nn.functional.binary_cross_entropy_with_logits(net(xb), (yb[:, None] > steps).float())
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(xb)
        if epoch % 3 == 0:
            print(f"epoch {epoch} loss {total / len(x):.4f}")
    with torch.no_grad():
        print(f"exact rating on test reviews: {(net.predict(xt) == yt).float().mean():.3f}")
