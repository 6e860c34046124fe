import pathlib
import sys
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

ROOT = pathlib.Path(sys.argv[1])
EPOCHS = 30
BATCH = 64
LR = 2e-3


def load(name):
    z = np.load(ROOT / name)
    return torch.from_numpy(z["board"]).long(), torch.from_numpy(z["result"]).float()


def planes(board):
    return F.one_hot(board, 5)[..., 1:].permute(0, 3, 1, 2).float()


class ValueNet(nn.Module):
    """Predicts the probability that the side to move wins."""

    def __init__(self, ch=12):
        super().__init__()
        self.conv1 = nn.Conv2d(4, ch, 3, padding=1)
        self.conv2 = nn.Conv2d(ch, ch, 3, padding=1)
        self.fc1 = nn.Linear(ch * 64, 128)
        self.fc2 = nn.Linear(128, 1)

    def forward(self, x):
        x = F.relu(self.conv1(x))
        x = F.relu(self.conv2(x))
        x = F.relu(self.fc1(x.flatten(1)))
        return self.fc2(x).squeeze(1)


def metrics(model, x, y):
    model.eval()
    with torch.no_grad():
        logit = torch.cat([model(b) for b in x.split(500)])
    return F.binary_cross_entropy_with_logits(logit, y).item(), ((logit > 0).float() == y).float().mean().item()


def main():
    torch.manual_seed(1)
    board, y = load("train.npz")
    vboard, vy = load("valid.npz")
    x, vx = planes(board), planes(vboard)
    print(f"{len(x)} training positions, {len(vx)} validation positions, wins {y.mean():.3f}")
    net = ValueNet()
    opt = torch.optim.Adam(net.parameters(), lr=LR)
    best = 0.0
    start = time.time()
    for epoch in range(1, EPOCHS + 1):
        net.train()
        order = torch.randperm(len(x))
        running = 0.0
        for idx in order.split(BATCH):
            loss = F.binary_cross_entropy_with_logits(net(x[idx]), y[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            running += loss.item() * len(idx)
        vloss, vacc = metrics(net, vx, vy)
        if vacc > best:
            best, best_epoch = vacc, epoch
        print(f"[{time.time() - start:5.1f}s] epoch {epoch:2d} train {running / len(x):.4f} "
              f"valid {vloss:.4f} acc {vacc:.4f}", flush=True)
    print(f"best validation accuracy {best:.4f} (epoch {best_epoch})")


main()
