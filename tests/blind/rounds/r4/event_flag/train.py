"""Discrete-time hazard network (10 intervals). Reads FOLDER/train.csv and FOLDER/valid.csv."""
import sys
from pathlib import Path
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

FOLDER = Path(__file__).parent / sys.argv[1]
BINS, HORIZON = 10, 60.0


def read(name):
    raw = np.loadtxt(FOLDER / name, delimiter=",", skiprows=1, dtype=np.float32)
    x, months, status = raw[:, :-2], raw[:, -2], raw[:, -1]
    interval = np.minimum((months / HORIZON * BINS).astype(np.int64), BINS - 1)
    return torch.from_numpy(x), torch.from_numpy(interval), torch.from_numpy(months), torch.from_numpy(status)


class HazardNet(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(d, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, BINS))
        nn.init.constant_(self.body[-1].bias, -2.0)

    def forward(self, x):
        return self.body(x)


def nll(logits, interval, status):
    """Survive every earlier interval; die in the last one if status is 1, else survive it."""
    grid = torch.arange(BINS)
    at_risk = (grid <= interval[:, None]).float()
    died = (grid == interval[:, None]).float() * status[:, None]
    ce = nn.functional.binary_cross_entropy_with_logits(logits, died, reduction="none")
    return (ce * at_risk).sum(1).mean()


@torch.no_grad()
def validate(model, x, interval, months, status):
    model.eval()
    logits = model(x)
    risk = -nn.functional.logsigmoid(-logits).sum(1)
    pairs = (months[:, None] < months[None]) & (status[:, None] == 1)
    good = (risk[:, None] > risk[None]).float()
    return nll(logits, interval, status).item(), ((good * pairs).sum() / pairs.sum()).item()


def main():
    torch.manual_seed(1)
    train, valid = read("train.csv"), read("valid.csv")
    mean, std = train[0].mean(0), train[0].std(0)
    train, valid = [((t[0] - mean) / std, *t[1:]) for t in (train, valid)]
    loader = DataLoader(TensorDataset(train[0], train[1], train[3]), batch_size=40, shuffle=True)
    model = HazardNet(train[0].size(1))
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    for epoch in range(12):
        model.train()
        total = 0.0
        for x, interval, status in loader:
            loss = nll(model(x), interval, status)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item()
        vl, c = validate(model, *valid)
        print(f"epoch {epoch:2d} train nll {total / len(loader):.4f} valid nll {vl:.4f} C-index {c:.4f}")


if __name__ == "__main__":
    main()
