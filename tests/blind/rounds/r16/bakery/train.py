"""Sales of bakery products with an embedding per product."""
import csv
import sys
import torch
from torch import nn

DIR = sys.argv[1]


def load(name):
    with open(f"{DIR}/{name}.csv") as f:
        rows = list(csv.DictReader(f))
    prod = torch.tensor([int(r["product"]) for r in rows])
    wday = torch.tensor([int(r["weekday"]) for r in rows])
    cont = torch.tensor([[float(r["promo"]), float(r["rain"]) / 5] for r in rows])
    return prod, wday, cont, torch.tensor([float(r["log_sales"]) for r in rows])


class SalesNet(nn.Module):
    def __init__(self, n_products):
        super().__init__()
        self.product = nn.Embedding(n_products, 6)
        self.weekday = nn.Embedding(7, 3)
        self.mlp = nn.Sequential(nn.Linear(11, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, prod, wday, cont):
        z = torch.cat([self.product(prod), self.weekday(wday), cont], dim=1)
        return self.mlp(z).squeeze(1)


torch.manual_seed(9)
hist = load("history")
mean, n_rows = hist[3].mean(), len(hist[3])
net = SalesNet(int(hist[0].max()) + 1)
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for epoch in range(12):
    total = 0.0
    for rows in torch.randperm(n_rows).split(50):
        p, w, c, y = (t[rows] for t in hist)
        loss = nn.functional.mse_loss(net(p, w, c), y - mean)
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss.item() * len(rows)
    if epoch % 3 == 2:
        print(f"epoch {epoch + 1} mse {total / n_rows:.4f}")

p, w, c, y = load("next_month")
with torch.no_grad():
    pred = net(p, w, c) + mean
print(f"next month: RMSE {(pred - y).pow(2).mean().sqrt():.3f}  R2 {1 - (pred - y).pow(2).mean() / y.var():.3f}")
