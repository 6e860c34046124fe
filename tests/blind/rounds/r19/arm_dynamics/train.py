"""Forward dynamics of a two-link arm: (q, dq, tau) -> ddq, from logged rollouts."""
import argparse
import os

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

INPUTS = ["q1", "q2", "dq1", "dq2", "tau1", "tau2"]
OUTPUTS = ["ddq1", "ddq2"]


class RolloutLog(Dataset):
    def __init__(self, path, norm=None):
        table = np.genfromtxt(path, delimiter=",", names=True)
        x = np.stack([table[c] for c in INPUTS], 1).astype(np.float32)
        y = np.stack([table[c] for c in OUTPUTS], 1).astype(np.float32)
        self.norm = norm or (x.mean(0), x.std(0), y.mean(0), y.std(0))
        mx, sx, my, sy = self.norm
        self.x = torch.from_numpy((x - mx) / sx)
        self.y = torch.from_numpy((y - my) / sy)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


class DynamicsModel(nn.Module):
    def __init__(self, hidden=96):
        super().__init__()
        self.inp = nn.Linear(len(INPUTS), hidden)
        self.mid = nn.Linear(hidden, hidden)
        self.mid2 = nn.Linear(hidden, hidden)
        self.out = nn.Linear(hidden, len(OUTPUTS))
        self.act = nn.SiLU()

    def forward(self, x):
        h = self.act(self.inp(x))
        h = h + self.act(self.mid(h))
        h = h + self.act(self.mid2(h))
        return self.out(h)


@torch.no_grad()
def validate(model, loader):
    model.eval()
    err = var = 0.0
    for x, y in loader:
        err += ((model(x) - y) ** 2).sum(0)
        var += (y ** 2).sum(0)
    return 1 - err / var


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("data")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--lr", type=float, default=3e-3)
    args = parser.parse_args()
    torch.manual_seed(12)

    train = RolloutLog(os.path.join(args.data, "train.csv"))
    valid = RolloutLog(os.path.join(args.data, "valid.csv"), norm=train.norm)
    train_loader = DataLoader(train, batch_size=args.batch, shuffle=True, drop_last=True)
    valid_loader = DataLoader(valid, batch_size=500)

    model = DynamicsModel()
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, args.epochs * len(train_loader))
    for epoch in range(args.epochs):
        model.train()
        acc = 0.0
        for x, y in train_loader:
            loss = nn.functional.huber_loss(model(x), y)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 10.0)
            opt.step()
            sched.step()
            acc += loss.item()
        score = validate(model, valid_loader)
        print("epoch %02d  huber %.5f  valid R2 joint1 %.4f joint2 %.4f" % (epoch, acc / len(train_loader), *score.tolist()))
    print("valid_r2_mean %.4f" % score.mean().item())


if __name__ == "__main__":
    main()
