import argparse
import csv
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("folder", type=Path)
parser.add_argument("--epochs", type=int, default=15)
parser.add_argument("--lr", type=float, default=3e-3)
parser.add_argument("--batch-size", type=int, default=32)
args = parser.parse_args()
torch.manual_seed(11)
INPUTS, OUTPUT = ["rain", "soil_moisture", "slope", "temperature"], "runoff"


def read(name):
    with open(args.folder / name) as f:
        rows = list(csv.DictReader(f))
    x = torch.tensor([[float(r[k]) for k in INPUTS] for r in rows])
    y = torch.tensor([[float(r[OUTPUT])] for r in rows])
    return x, y


class RunoffNet(nn.Module):
    def __init__(self, x, y, hidden=32):
        super().__init__()
        self.register_buffer("x_mean", x.mean(0))
        self.register_buffer("x_std", x.std(0))
        self.register_buffer("y_mean", y.mean(0))
        self.register_buffer("y_std", y.std(0))
        self.net = nn.Sequential(nn.Linear(len(INPUTS), hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh(), nn.Linear(hidden, 1))

    def forward(self, x):
        return self.net((x - self.x_mean) / self.x_std) * self.y_std + self.y_mean


@torch.no_grad()
def nash_sutcliffe(model, x, y):
    model.eval()
    return (1 - (model(x) - y).pow(2).sum() / (y - y.mean()).pow(2).sum()).item()


train_x, train_y = read("train.csv")
val_x, val_y = read("val.csv")
print(f"{len(train_x)} training days, {len(val_x)} validation days")
loader = DataLoader(TensorDataset(train_x, train_y), batch_size=args.batch_size, shuffle=True)
model = RunoffNet(train_x, train_y)
optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.epochs)
for epoch in range(1, args.epochs + 1):
    model.train()
    total = 0.0
    for x, y in loader:
        loss = ((model(x) - y) / model.y_std).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        total += loss.item()
    scheduler.step()
    if epoch % 3 == 0:
        print(f"epoch {epoch} loss {total / len(loader):.4f} val NSE {nash_sutcliffe(model, val_x, val_y):.4f}")
print(f"validation Nash-Sutcliffe efficiency {nash_sutcliffe(model, val_x, val_y):.4f}")
