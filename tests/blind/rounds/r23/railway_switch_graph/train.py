# throw time of railway switches from their own data and from the neighbours in the track graph
import configparser
import csv
import sys

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

FEATURES = ["age_years", "throws_per_day", "axle_load", "motor_current", "heater", "ballast_index"]


def load_nodes(path):
    with open(path, newline="") as f:
        rows = list(csv.DictReader(f))
    x = np.array([[float(r[c]) for c in FEATURES] for r in rows])
    for c in ("throws_per_day", "axle_load"):
        j = FEATURES.index(c)
        x[:, j] = np.log1p(x[:, j])
    y = np.array([float(r["throw_time_s"]) for r in rows])
    split = np.array([r["split"] for r in rows])
    return x, y, split


def load_edges(path, n):
    """Row-normalized adjacency of the undirected graph (no self loops)."""
    e = np.loadtxt(path, delimiter=",", skiprows=1, dtype=np.int64)
    e = np.concatenate([e, e[:, ::-1]])
    e = np.unique(e, axis=0)
    degree = np.bincount(e[:, 0], minlength=n).clip(1)
    weight = torch.tensor(1.0 / degree[e[:, 0]], dtype=torch.float32)
    return torch.from_numpy(e[:, 0].copy()), torch.from_numpy(e[:, 1].copy()), weight


class Sage(nn.Module):
    def __init__(self, n_in, n_out):
        super().__init__()
        self.own = nn.Linear(n_in, n_out)
        self.near = nn.Linear(n_in, n_out, bias=False)

    def forward(self, h, graph):
        dst, src, weight = graph
        mean = torch.zeros_like(h).index_add(0, dst, h[src] * weight[:, None])
        return self.own(h) + self.near(mean)


class SwitchNet(nn.Module):
    def __init__(self, n_in, hidden, dropout):
        super().__init__()
        self.a = Sage(n_in, hidden)
        self.b = Sage(hidden, hidden)
        self.out = nn.Linear(2 * hidden, 1)
        self.dropout = dropout

    def forward(self, x, graph):
        h1 = F.elu(self.a(x, graph))
        h1 = F.dropout(h1, self.dropout, self.training)
        h2 = F.elu(self.b(h1, graph))
        return self.out(torch.cat([h1, h2], 1)).squeeze(1)


folder = sys.argv[1]
cfg = configparser.ConfigParser()
cfg.read(f"{folder}/run.ini")
hp = cfg["training"]
torch.manual_seed(hp.getint("seed"))

x, y, split = load_nodes(f"{folder}/nodes.csv")
graph = load_edges(f"{folder}/edges.csv", len(x))
train, val, test = (torch.from_numpy(split == s) for s in ("train", "val", "test"))
x = torch.tensor((x - x[split == "train"].mean(0)) / x[split == "train"].std(0), dtype=torch.float32)
y = torch.tensor(y, dtype=torch.float32)
mu, sd = y[train].mean(), y[train].std()
target = (y - mu) / sd
print(f"{len(x)} switches, {len(graph[0])} directed edges, {int(train.sum())} for training")

model = SwitchNet(x.shape[1], cfg["model"].getint("hidden"), cfg["model"].getfloat("dropout"))
optimizer = torch.optim.AdamW(model.parameters(), lr=hp.getfloat("lr"), weight_decay=hp.getfloat("weight_decay"))


def score(mask):
    model.eval()
    with torch.no_grad():
        err = (model(x, graph) - target)[mask]
    return (err.abs().mean() * sd).item(), (1 - err.pow(2).mean() / target[mask].var(correction=0)).item()


best, kept = float("inf"), None
for epoch in range(1, hp.getint("epochs") + 1):
    model.train()
    loss = F.mse_loss(model(x, graph)[train], target[train])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    mae, r2 = score(val)
    if mae < best:
        best, kept = mae, {k: v.clone() for k, v in model.state_dict().items()}
    if epoch % 20 == 0:
        print(f"epoch {epoch:3d} loss {loss.item():.4f} val MAE {mae:.3f} s R2 {r2:.3f}")

model.load_state_dict(kept)
mae, r2 = score(test)
print(f"test MAE {mae:.3f} s, R2 {r2:.3f}")
