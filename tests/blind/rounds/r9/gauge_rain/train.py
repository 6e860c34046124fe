"""Level forecast five hours ahead at a weir from hourly rain and level records (train.csv, valid.csv)."""
import os
import sys

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

LOOKBACK, LEAD = 16, 5


def read_record(path):
    table = np.loadtxt(path, delimiter=",", skiprows=1, dtype=np.float32)
    return table[:, 1:]


class ForecastSet(Dataset):
    """Past rain and level -> rise of the level until LEAD hours later."""

    def __init__(self, record, mean, std):
        self.z = torch.from_numpy((record - mean) / std)
        self.starts = range(len(record) - LOOKBACK - LEAD + 1)

    def __len__(self):
        return len(self.starts)

    def __getitem__(self, i):
        past = self.z[i:i + LOOKBACK]
        future = self.z[i + LOOKBACK + LEAD - 1, 1]
        return past.t().reshape(-1), future - past[-1, 1], past[-1, 1]


def skill(model, loader):
    """Nash-Sutcliffe efficiency of the level and share of the persistence error removed."""
    model.eval()
    err, truth, naive = [], [], []
    with torch.no_grad():
        for past, rise, last in loader:
            err.append(model(past).squeeze(1) - rise)
            truth.append(last + rise)
            naive.append(rise)
    err, truth, naive = torch.cat(err), torch.cat(truth), torch.cat(naive)
    sse = (err ** 2).sum()
    return (1 - sse / ((truth - truth.mean()) ** 2).sum()).item(), (1 - sse / (naive ** 2).sum()).item()


def main(folder):
    torch.manual_seed(2)
    train_rec = read_record(os.path.join(folder, "train.csv"))
    valid_rec = read_record(os.path.join(folder, "valid.csv"))
    mean, std = train_rec.mean(0), train_rec.std(0)
    train = DataLoader(ForecastSet(train_rec, mean, std), batch_size=64, shuffle=True)
    valid = DataLoader(ForecastSet(valid_rec, mean, std), batch_size=256)

    model = nn.Sequential(nn.Linear(2 * LOOKBACK, 48), nn.ReLU(), nn.Linear(48, 1))
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-2)
    epochs = 12
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, epochs)
    loss_fn = nn.SmoothL1Loss()
    for epoch in range(epochs):
        model.train()
        total = 0.0
        for past, rise, _ in train:
            loss = loss_fn(model(past).squeeze(1), rise)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(past)
        sched.step()
        nse, gain = skill(model, valid)
        print(f"epoch {epoch:2d} train loss {total / len(train.dataset):.4f} val NSE {nse:.3f} gain over persistence {gain:.3f}")
    print(f"final model: val NSE {nse:.3f}, gain over persistence {gain:.3f}")


if __name__ == "__main__":
    main(sys.argv[1])
