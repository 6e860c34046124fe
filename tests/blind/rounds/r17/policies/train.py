import argparse
import csv

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

ap = argparse.ArgumentParser(description="claim severity model")
ap.add_argument("folder")
ap.add_argument("--lr", type=float, default=3e-3)
ap.add_argument("--epochs", type=int, default=12)
ap.add_argument("--batch-size", type=int, default=100)
ap.add_argument("--seed", type=int, default=4)
args = ap.parse_args()
torch.manual_seed(args.seed)

store = np.load(f"{args.folder}/train.npz")
columns = [str(c) for c in store["columns"]]
x_train = torch.tensor(np.stack([store[c] for c in columns], 1), dtype=torch.float32)
y_train = torch.tensor(store["claim"], dtype=torch.float32).log()

with open(f"{args.folder}/test.csv") as f:
    table = list(csv.DictReader(f, delimiter=";"))
x_test = torch.tensor([[float(r[c]) for c in columns] for r in table])
y_test = torch.tensor([float(r["claim"]) for r in table]).log()


class Standardise(nn.Module):
    def __init__(self, x):
        super().__init__()
        self.register_buffer("mean", x.mean(0))
        self.register_buffer("std", x.std(0))

    def forward(self, x):
        return (x - self.mean) / self.std


class Severity(nn.Module):
    def __init__(self, x, y, width=48):
        super().__init__()
        self.scale = Standardise(x)
        self.net = nn.Sequential(nn.Linear(x.shape[1], width), nn.SiLU(), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, 1))
        nn.init.constant_(self.net[-1].bias, y.mean().item())

    def forward(self, x):
        return self.net(self.scale(x)).squeeze(-1)


model = Severity(x_train, y_train)
optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=1e-3)
loader = DataLoader(TensorDataset(x_train, y_train), batch_size=args.batch_size, shuffle=True)
scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=args.lr, total_steps=args.epochs * len(loader))

for epoch in range(args.epochs):
    model.train()
    seen = 0.0
    for xb, yb in loader:
        loss = F.mse_loss(model(xb), yb)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        seen += loss.item() * len(xb)
    if epoch % 3 == 2:
        print(f"epoch {epoch + 1:2d} mse(log claim) {seen / len(x_train):.4f}")

model.eval()
with torch.no_grad():
    err = model(x_test) - y_test
r2 = 1 - err.pow(2).mean() / y_test.var()
print(f"test rmse(log claim) {err.pow(2).mean().sqrt():.4f}  r2 {r2:.3f}")
