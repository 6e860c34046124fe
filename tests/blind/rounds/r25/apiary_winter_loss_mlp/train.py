"""Winter loss of honeybee colonies, to be predicted in autumn when the hives are closed."""
import csv
import os
import sys

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

NUM = ["queen_age_months", "mites_per_100", "stores_kg", "treatments", "hive_insulated",
       "frames_of_bees", "pollen_frames", "sun_hours_sept"]


def read(path):
    with open(path, newline="") as fh:
        rows = list(csv.DictReader(fh))
    num = np.array([[float(r[c]) for c in NUM] for r in rows], dtype=np.float32)
    site = [r["site"] for r in rows]
    y = np.array([int(r["lost"]) for r in rows], dtype=np.float32)
    return num, site, y


class ColonyNet(nn.Module):
    def __init__(self, n_sites, n_num, width=48):
        super().__init__()
        self.site = nn.Embedding(n_sites, 4)
        self.body = nn.Sequential(
            nn.Linear(n_num + 4, width), nn.ReLU(), nn.Dropout(0.1),
            nn.Linear(width, width), nn.ReLU(), nn.Dropout(0.1),
            nn.Linear(width, 1))

    def forward(self, num, site):
        return self.body(torch.cat([num, self.site(site)], dim=1)).squeeze(1)


def auc(score, y):
    order = np.argsort(score, kind="stable")
    rank = np.empty(len(score))
    rank[order] = np.arange(1, len(score) + 1)
    pos = y == 1
    n1, n0 = pos.sum(), (~pos).sum()
    return (rank[pos].sum() - n1 * (n1 + 1) / 2) / (n1 * n0)


def score(model, num, site):
    model.eval()
    with torch.no_grad():
        return torch.sigmoid(model(num, site)).numpy()


def main(folder):
    torch.manual_seed(3)
    num_t, site_t, y_t = read(os.path.join(folder, "train.csv"))
    num_v, site_v, y_v = read(os.path.join(folder, "val.csv"))
    names = {s: i for i, s in enumerate(sorted(set(site_t)))}
    mean, std = num_t.mean(0), num_t.std(0)
    num_t = torch.from_numpy((num_t - mean) / std)
    num_v = torch.from_numpy((num_v - mean) / std)
    s_t = torch.tensor([names[s] for s in site_t])
    s_v = torch.tensor([names[s] for s in site_v])
    loader = DataLoader(TensorDataset(num_t, s_t, torch.from_numpy(y_t)), batch_size=64, shuffle=True)

    model = ColonyNet(len(names), len(NUM))
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1e-2)
    loss_fn = nn.BCEWithLogitsLoss()
    for epoch in range(25):
        model.train()
        total = 0.0
        for num, site, y in loader:
            opt.zero_grad()
            loss = loss_fn(model(num, site), y)
            loss.backward()
            opt.step()
            total += loss.item() * len(y)
        if epoch % 4 == 0 or epoch == 24:
            p = score(model, num_v, s_v)
            print(f"epoch {epoch:2d}  train loss {total / len(y_t):.4f}  val AUC {auc(p, y_v):.3f}")
    p = score(model, num_v, s_v)
    print(f"lost in val: {y_v.mean():.3f}   mean predicted: {p.mean():.3f}   val AUC {auc(p, y_v):.4f}")


if __name__ == "__main__":
    main(sys.argv[1])
