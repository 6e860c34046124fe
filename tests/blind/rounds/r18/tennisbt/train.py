import csv
import json
import sys

import torch
import torch.nn.functional as F

"""Paired comparison model of tennis results: skill per player, adjustment per surface, rest days."""

folder = sys.argv[1]
SURFACE = {"clay": 0, "grass": 1, "hard": 2}
players = json.load(open(f"{folder}/players.json"))


def season(year):
    cols = [], [], [], [], [], []
    with open(f"{folder}/matches_{year}.csv") as f:
        for r in csv.DictReader(f):
            for c, v in zip(cols, (int(r["player1"]), int(r["player2"]), SURFACE[r["surface"]], float(r["best_of"] == "5"),
                                   (float(r["rest1"]) - float(r["rest2"])) / 4, float(r["player1_won"]))):
                c.append(v)
    return [torch.tensor(c) for c in cols]


def init(n):
    p = {"skill": torch.zeros(n), "surf": torch.zeros(n, 3), "long": torch.zeros(()), "rest": torch.zeros(())}
    return {k: v.requires_grad_() for k, v in p.items()}


def logit(p, a, b, s, five, rest):
    diff = p["skill"][a] + p["surf"][a, s] - p["skill"][b] - p["surf"][b, s]
    return diff * torch.exp(p["long"] * five) + p["rest"] * rest


def objective(p, batch, n):
    *inp, won = batch
    nll = F.binary_cross_entropy_with_logits(logit(p, *inp), won)
    prior = 0.2 * p["skill"].pow(2).sum() + 1.5 * p["surf"].pow(2).sum()
    return nll + prior / n


torch.manual_seed(0)
train = [torch.cat(c) for c in zip(season(2021), season(2022))]
test = season(2023)
n = len(train[0])
params = init(len(players))
opt = torch.optim.Adam(params.values(), lr=0.03)
sched = torch.optim.lr_scheduler.LinearLR(opt, 1.0, 0.05, total_iters=12)
for epoch in range(12):
    seen = 0.0
    for idx in torch.randperm(n).split(100):
        loss = objective(params, [c[idx] for c in train], n)
        opt.zero_grad()
        loss.backward()
        opt.step()
        seen += loss.item() * len(idx)
    sched.step()
    if epoch % 3 == 2:
        print(f"epoch {epoch + 1} objective {seen / n:.4f}")
with torch.no_grad():
    z = logit(params, *test[:-1])
    won = test[-1]
    top = params["skill"].topk(3).indices.tolist()
    print("best:", ", ".join(players[str(i)] for i in top))
    print(f"2023: log loss {F.binary_cross_entropy_with_logits(z, won):.4f}, accuracy {((z > 0) == (won > 0.5)).float().mean():.3f}")
