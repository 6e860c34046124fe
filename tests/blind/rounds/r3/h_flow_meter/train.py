import sys

import numpy as np
import torch
from torch import nn

FOLDER = sys.argv[1]
torch.manual_seed(7)
np.random.seed(7)
STEPS, BATCH, LR = 700, 64, 3e-3


def load(name):
    with np.load(f"{FOLDER}/{name}.npz") as z:
        x = np.stack([z["pulses"].astype(np.float32), z["temperature"], z["viscosity"]], 1)
        return torch.from_numpy(x), torch.from_numpy(z["flow"])


class FlowNet(nn.Module):
    def __init__(self, x, y):
        super().__init__()
        for name, value in {"mx": x.mean(0), "sx": x.std(0), "my": y.mean(), "sy": y.std()}.items():
            self.register_buffer(name, value)
        self.net = nn.Sequential(nn.Linear(3, 48), nn.Tanh(), nn.Linear(48, 48), nn.Tanh(), nn.Linear(48, 1))

    def forward(self, x):
        return self.net((x - self.mx) / self.sx).squeeze(1) * self.sy + self.my


@torch.no_grad()
def errors(model, x, y):
    model.eval()
    pred = model(x)
    model.train()
    rmse = (pred - y).pow(2).mean().sqrt().item()
    return rmse, 1 - rmse ** 2 / y.var().item()


x, y = load("train")
val_x, val_y = load("val")
print(f"{len(x)} training and {len(val_x)} validation records")
model = FlowNet(x, y)
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=2 * LR, total_steps=STEPS)
order, at = torch.randperm(len(x)), 0
running = 0.0
for step in range(1, STEPS + 1):
    if at + BATCH > len(order):
        order, at = torch.randperm(len(x)), 0
    idx = order[at : at + BATCH]
    at += BATCH
    loss = ((model(x[idx]) - y[idx]) / model.sy).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    scheduler.step()
    running += loss.item()
    if step % 140 == 0:
        rmse, r2 = errors(model, val_x, val_y)
        print(f"step {step} train loss {running / 140:.5f} val rmse {rmse:.3f} r2 {r2:.4f}")
        running = 0.0
rmse, r2 = errors(model, val_x, val_y)
print(f"validation rmse {rmse:.3f} l/min, R2 {r2:.4f}")
