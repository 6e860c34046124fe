"""Will this call be escalated to a supervisor?  Scored for the agent's screen five minutes into the call."""
import json
import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn

folder = Path(sys.argv[1])
cfg = json.loads((folder / "config.json").read_text())
torch.manual_seed(cfg["seed"])

NUMERIC = ["wait_s", "tenure_months", "calls_30d", "voice_arousal", "silence_share", "transfers"]
LOGGED = {"wait_s", "tenure_months"}


def read_calls(path):
    with open(path) as f:
        return [json.loads(line) for line in f]


def numbers(calls):
    cols = []
    for name in NUMERIC:
        col = np.array([c[name] for c in calls], dtype=np.float32)
        cols.append(np.log1p(col) if name in LOGGED else col)
    return np.stack(cols, axis=1)


class Escalation(nn.Module):
    def __init__(self, n_queues, n_num, hidden):
        super().__init__()
        self.queue = nn.Embedding(n_queues, 4)
        self.mlp = nn.Sequential(nn.Linear(4 + n_num, hidden), nn.ReLU(), nn.Dropout(0.2),
                                 nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1))

    def forward(self, q, x):
        return self.mlp(torch.cat([self.queue(q), x], dim=1)).squeeze(1)


def auc(score, label):
    rank = torch.empty(len(score), dtype=torch.float64)
    rank[score.argsort()] = torch.arange(1, len(score) + 1, dtype=torch.float64)
    pos = label.sum().item()
    return (rank[label == 1].sum().item() - pos * (pos + 1) / 2) / (pos * (len(label) - pos))


calls = read_calls(folder / "calls.jsonl")
parts = {}
for part in ("train", "valid"):
    lo, hi = cfg[f"{part}_days"]
    parts[part] = [c for c in calls if lo <= c["day"] <= hi]

queues = sorted({c["queue"] for c in parts["train"]})
mean, std = numbers(parts["train"]).mean(0), numbers(parts["train"]).std(0)
data = {}
for part, rows in parts.items():
    data[part] = (torch.tensor([queues.index(c["queue"]) for c in rows]),
                  torch.from_numpy((numbers(rows) - mean) / std),
                  torch.tensor([float(c["escalated"]) for c in rows]))
print({k: len(v[2]) for k, v in data.items()}, "escalated:", round(data["train"][2].mean().item(), 3))

net = Escalation(len(queues), len(NUMERIC), cfg["hidden"])
opt = torch.optim.AdamW(net.parameters(), lr=cfg["lr"], weight_decay=1e-2)
bce = nn.BCEWithLogitsLoss()
q, x, y = data["train"]
vq, vx, vy = data["valid"]
for epoch in range(cfg["epochs"]):
    net.train()
    total = 0.0
    for idx in torch.randperm(len(y)).split(cfg["batch"]):
        loss = bce(net(q[idx], x[idx]), y[idx])
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss.item() * len(idx)
    net.eval()
    with torch.no_grad():
        score = net(vq, vx)
    if epoch % 3 == 0 or epoch == cfg["epochs"] - 1:
        print(f"epoch {epoch:2d}  train {total / len(y):.4f}  valid {bce(score, vy):.4f}  valid auc {auc(score, vy):.4f}")
