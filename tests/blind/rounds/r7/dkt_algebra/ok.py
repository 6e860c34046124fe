"""Deep knowledge tracing on algebra practice logs (simulated IRT students)."""
import argparse

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--students", type=int, default=700)
parser.add_argument("--skills", type=int, default=12)
parser.add_argument("--steps", type=int, default=40)
parser.add_argument("--epochs", type=int, default=7)
parser.add_argument("--hidden", type=int, default=48)
parser.add_argument("--lr", type=float, default=3e-3)
parser.add_argument("--seed", type=int, default=7)
args = parser.parse_args()

torch.manual_seed(args.seed)
rng = np.random.default_rng(args.seed)


def simulate_logs(n_students, n_skills, n_steps):
    difficulty = rng.normal(0, 1.0, n_skills)
    skills = np.zeros((n_students, n_steps), dtype=np.int64)
    correct = np.zeros((n_students, n_steps), dtype=np.int64)
    lengths = rng.integers(n_steps // 2, n_steps + 1, n_students)
    for s in range(n_students):
        mastery = rng.normal(0, 1.5) - difficulty + rng.normal(0, 0.7, n_skills)
        for t in range(lengths[s]):
            k = rng.integers(n_skills)
            skills[s, t] = k
            correct[s, t] = rng.random() < 1 / (1 + np.exp(-1.5 * mastery[k]))
            mastery[k] += 0.12
    return torch.from_numpy(skills), torch.from_numpy(correct), torch.from_numpy(lengths)


class DKT(nn.Module):
    def __init__(self, n_skills, hidden):
        super().__init__()
        self.n_skills = n_skills
        self.interaction = nn.Embedding(2 * n_skills + 1, hidden)
        self.start = 2 * n_skills
        self.rnn = nn.LSTM(hidden, hidden, batch_first=True)
        self.query = nn.Embedding(n_skills, hidden)
        self.head = nn.Sequential(nn.Linear(2 * hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1))

    def forward(self, skills, correct):
        tokens = skills + self.n_skills * correct
        first = torch.full_like(tokens[:, :1], self.start)
        tokens = torch.cat([first, tokens[:, :-1]], dim=1)
        state, _ = self.rnn(self.interaction(tokens))
        return self.head(torch.cat([state, self.query(skills)], dim=-1)).squeeze(-1)


def step_mask(lengths, n_steps):
    return torch.arange(n_steps)[None, :] < lengths[:, None]


def auc(scores, labels):
    ranks = torch.empty(len(scores), dtype=torch.float64)
    ranks[scores.argsort()] = torch.arange(1, len(scores) + 1, dtype=torch.float64)
    pos = labels.bool()
    n_pos, n_neg = pos.sum().item(), (~pos).sum().item()
    return ((ranks[pos].sum() - n_pos * (n_pos + 1) / 2) / (n_pos * n_neg)).item()


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    scores, labels = [], []
    for skills, correct, lengths in loader:
        mask = step_mask(lengths, skills.size(1))
        scores.append(model(skills, correct)[mask])
        labels.append(correct[mask])
    scores, labels = torch.cat(scores), torch.cat(labels)
    loss = F.binary_cross_entropy_with_logits(scores, labels.float()).item()
    return loss, auc(scores, labels)


logs = simulate_logs(args.students, args.skills, args.steps)
n_train = int(0.8 * args.students)
train_set = TensorDataset(*[t[:n_train] for t in logs])
valid_set = TensorDataset(*[t[n_train:] for t in logs])
train_loader = DataLoader(train_set, batch_size=32, shuffle=True)
valid_loader = DataLoader(valid_set, batch_size=64)

model = DKT(args.skills, args.hidden)
optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
for epoch in range(args.epochs):
    model.train()
    total, count = 0.0, 0
    for skills, correct, lengths in train_loader:
        mask = step_mask(lengths, skills.size(1))
        logits = model(skills, correct)
        loss = F.binary_cross_entropy_with_logits(logits[mask], correct[mask].float())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        total += loss.item() * mask.sum().item()
        count += mask.sum().item()
    val_loss, val_auc = evaluate(model, valid_loader)
    print(f"epoch {epoch:2d}  train nll {total / count:.4f}  valid nll {val_loss:.4f}  valid auc {val_auc:.4f}")
