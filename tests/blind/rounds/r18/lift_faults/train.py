# Fault within the next week, from weekly telemetry of lifts. The epoch is picked on the validation fold;
# the second number is on the lifts of a newly won contract.
import copy
import csv
import json
import os
import sys

import torch
import torch.nn.functional as F

home = sys.argv[1]
run = json.load(open(os.path.join(home, "run.json")))
folds = json.load(open(os.path.join(home, "folds.json")))
FEATS = ["floors", "built", "load_kg", "door_close_s", "relevel_count", "vibration_rms", "trips"]


def load(name):
    rows = list(csv.DictReader(open(os.path.join(home, name))))
    x = torch.tensor([[float(r[f]) for f in FEATS] for r in rows])
    return [f"{r['lift']}/{r['week']}" for r in rows], x, torch.tensor([float(r["fault_next_week"]) for r in rows])


def auc(s, y):
    order = s.argsort()
    rank = torch.empty_like(s, dtype=torch.double)
    rank[order] = torch.arange(1, len(s) + 1, dtype=torch.double)
    p = y.sum().item()
    return ((rank[y == 1].sum() - p * (p + 1) / 2) / (p * (len(y) - p))).item()


torch.manual_seed(33)
keys, x, y = load("telemetry.csv")
_, x_new, y_new = load("new_contract.csv")
valid = torch.tensor([folds[k] == run["valid_fold"] for k in keys])
mu, sd = x[~valid].mean(0), x[~valid].std(0)
x, x_new = (x - mu) / sd, (x_new - mu) / sd
xt, yt, xv, yv = x[~valid], y[~valid], x[valid], y[valid]

h = run["hidden"]
model = torch.nn.Sequential(torch.nn.Linear(len(FEATS), h), torch.nn.ReLU(), torch.nn.Linear(h, h), torch.nn.ReLU(), torch.nn.Linear(h, 1))
opt = torch.optim.Adam(model.parameters(), lr=run["lr"])
best, best_state, wait = 0.0, None, 0
for epoch in range(run["max_epochs"]):
    tot = 0.0
    for b in torch.randperm(len(xt)).split(64):
        loss = F.binary_cross_entropy_with_logits(model(xt[b]).squeeze(1), yt[b])
        opt.zero_grad()
        loss.backward()
        opt.step()
        tot += loss.item() * len(b)
    with torch.no_grad():
        a = auc(model(xv).squeeze(1), yv)
    print(f"epoch {epoch:2d} loss {tot / len(xt):.4f} valid AUC {a:.4f}")
    if a > best:
        best, best_state, wait = a, copy.deepcopy(model.state_dict()), 0
    else:
        wait += 1
        if wait >= run["patience"]:
            break
model.load_state_dict(best_state)
with torch.no_grad():
    print(f"validation AUC {best:.4f}; new contract AUC {auc(model(x_new).squeeze(1), y_new):.4f}")
