"""Neural ODE: learn the vector field of a swinging arm from irregularly sampled recordings."""
import json
import sys
from pathlib import Path

import torch
import torch.nn as nn


class Field(nn.Module):
    def __init__(self, width=40):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(),
                                 nn.Linear(width, 2))

    def forward(self, s):
        return self.net(s)


def rk4(f, s, dt, substeps):
    h = dt / substeps
    for _ in range(substeps):
        k1 = f(s)
        k2 = f(s + h / 2 * k1)
        k3 = f(s + h / 2 * k2)
        k4 = f(s + h * k3)
        s = s + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return s


def load(path):
    out = []
    for line in path.read_text().splitlines():
        r = json.loads(line)
        out.append((torch.tensor(r["t"]), torch.tensor(r["state"])))
    return out


def segments(runs, length):
    """All windows of `length` consecutive samples: start state, gaps, the states to hit."""
    start, gaps, targets = [], [], []
    for t, s in runs:
        dt = t[1:] - t[:-1]
        for i in range(len(t) - length):
            start.append(s[i])
            gaps.append(dt[i:i + length])
            targets.append(s[i + 1:i + 1 + length])
    return torch.stack(start), torch.stack(gaps), torch.stack(targets)


def unroll(field, s, gaps, substeps=1):
    path = []
    for k in range(gaps.shape[1]):
        s = rk4(field, s, gaps[:, k:k + 1], substeps)
        path.append(s)
    return torch.stack(path, 1)


def rollout_rmse(field, runs):
    err = []
    with torch.no_grad():
        for t, s in runs:
            path = unroll(field, s[:1], (t[1:] - t[:-1])[None], 4)
            err.append((path[0] - s[1:]).clamp(-10, 10).pow(2).mean())
    return torch.stack(err).mean().sqrt().item()


def main(folder):
    torch.manual_seed(8)
    runs = load(folder / "train.jsonl")
    start, gaps, targets = segments(runs, 2)
    print(f"{len(runs)} recordings, {len(start)} segments")
    field = Field()
    opt = torch.optim.Adam(field.parameters(), lr=1e-3)
    epochs = 18
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, 1e-2, epochs=epochs, steps_per_epoch=-(-len(start) // 32))
    for epoch in range(epochs):
        total = 0.0
        for idx in torch.randperm(len(start)).split(32):
            pred = unroll(field, start[idx], gaps[idx])
            loss = nn.functional.smooth_l1_loss(pred, targets[idx], beta=0.2)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(field.parameters(), 1.0)
            opt.step()
            sched.step()
            total += loss.item() * len(idx)
        print(f"epoch {epoch:2d} loss {total / len(start):.5f}")
    print(f"rollout rmse on new swings {rollout_rmse(field, load(folder / 'test.jsonl')):.4f}")


main(Path(sys.argv[1]))
