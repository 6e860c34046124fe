"""Knowledge tracing with a GRU: next-answer prediction from quiz exports of the web site and the app."""
import csv
import sys
from collections import defaultdict

import torch
from torch import nn
import torch.nn.functional as F

FOLDER = sys.argv[1]
N_SKILLS, HIDDEN, EPOCHS, BATCH, LR = 10, 32, 10, 32, 4e-3
PASS_MARK = 0.5
torch.manual_seed(29)


def read_export(path):
    per_student = defaultdict(list)
    with open(path, newline="") as f:
        for row in csv.DictReader(f):
            per_student[row["student"]].append((int(row["step"]), int(row["skill"]), float(row["score"])))
    skills, passed = [], []
    for events in per_student.values():
        events.sort()
        skills.append([k for _, k, _ in events])
        passed.append([1 if v >= PASS_MARK else 0 for _, _, v in events])
    return torch.tensor(skills), torch.tensor(passed)


class Tracer(nn.Module):
    def __init__(self):
        super().__init__()
        self.past = nn.Embedding(2 * N_SKILLS, HIDDEN)
        self.next_skill = nn.Embedding(N_SKILLS, HIDDEN)
        self.gru = nn.GRU(HIDDEN, HIDDEN, batch_first=True)
        self.out = nn.Sequential(nn.Linear(2 * HIDDEN, HIDDEN), nn.ReLU(), nn.Dropout(0.1), nn.Linear(HIDDEN, 1))

    def forward(self, skills, passed):
        """Logits for steps 1..T-1, each from the steps before it and the skill asked."""
        seen = self.past(skills[:, :-1] + N_SKILLS * passed[:, :-1])
        state, _ = self.gru(seen)
        return self.out(torch.cat([state, self.next_skill(skills[:, 1:])], dim=-1)).squeeze(-1)


def auc(score, label):
    rank = torch.empty(len(score), dtype=torch.double)
    rank[score.argsort()] = torch.arange(1, len(score) + 1, dtype=torch.double)
    pos = label == 1
    n1, n0 = pos.sum(), (~pos).sum()
    return ((rank[pos].sum() - n1 * (n1 + 1) / 2) / (n1 * n0)).item()


train_k, train_p = read_export(f"{FOLDER}/train.csv")
valid_k, valid_p = read_export(f"{FOLDER}/valid.csv")
print(f"students: {len(train_k)} train, {len(valid_k)} valid")

model = Tracer()
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
for epoch in range(EPOCHS):
    model.train()
    losses = []
    for idx in torch.randperm(len(train_k)).split(BATCH):
        logit = model(train_k[idx], train_p[idx])
        loss = F.binary_cross_entropy_with_logits(logit, train_p[idx][:, 1:].float())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    model.eval()
    with torch.no_grad():
        logit, target = model(valid_k, valid_p).flatten(), valid_p[:, 1:].flatten()
    val = F.binary_cross_entropy_with_logits(logit, target.float()).item()
    acc = ((logit > 0) == (target == 1)).float().mean().item()
    print(f"epoch {epoch:2d}  train {sum(losses) / len(losses):.4f}  valid {val:.4f}  acc {acc:.3f}  auc {auc(logit, target):.3f}")
