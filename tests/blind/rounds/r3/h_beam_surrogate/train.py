import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
EPOCHS, BATCH = 30, 32
folder = Path(sys.argv[1])


def read(name):
    table = np.loadtxt(folder / name, delimiter=",", skiprows=1, dtype=np.float32)
    return torch.from_numpy(table[:, :-1]), torch.from_numpy(table[:, -1:])


class Scaler:
    def __init__(self, a):
        self.mean, self.std = a.mean(0), a.std(0)

    def __call__(self, a):
        return (a - self.mean) / self.std

    def inverse(self, a):
        return a * self.std + self.mean


class Surrogate(nn.Module):
    def __init__(self, n_in, hidden=48):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(n_in, hidden), nn.GELU(), nn.Linear(hidden, hidden), nn.GELU(), nn.Linear(hidden, 1))

    def forward(self, x):
        return self.net(x)


@torch.no_grad()
def r2(model, x, y):
    model.eval()
    pred = sy.inverse(model(sx(x)))
    return (1 - (pred - y).pow(2).sum() / (y - y.mean()).pow(2).sum()).item()


train_x, train_y = read("train.csv")
val_x, val_y = read("val.csv")
sx, sy = Scaler(train_x), Scaler(train_y)
loader = DataLoader(TensorDataset(sx(train_x), sy(train_y)), batch_size=BATCH, shuffle=True)
print(f"{len(train_x)} training and {len(val_x)} validation simulations")
model = Surrogate(train_x.shape[1])
optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS)
for epoch in range(1, EPOCHS + 1):
    model.train()
    total = 0.0
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    scheduler.step()
    if epoch % 6 == 0:
        print(f"epoch {epoch} loss {total / len(loader):.5f} train r2 {r2(model, train_x, train_y):.4f} val r2 {r2(model, val_x, val_y):.4f}")
print(f"validation R2 {r2(model, val_x, val_y):.4f} (train {r2(model, train_x, train_y):.4f})")
