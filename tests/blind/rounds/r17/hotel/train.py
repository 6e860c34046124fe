import csv
import glob
import math
import os
import sys

import torch
from torch import nn

FOLDER = sys.argv[1]
NUMERIC = ["stars", "distance_to_centre", "room_sqm", "review_score", "weekend", "breakfast", "days_ahead"]
torch.manual_seed(3)


def read(path):
    with open(path) as f:
        return list(csv.DictReader(f))


train_rows = []
for p in sorted(glob.glob(os.path.join(FOLDER, "*.csv"))):
    if os.path.basename(p) != "heldout.csv":
        train_rows += read(p)
test_rows = read(os.path.join(FOLDER, "heldout.csv"))
cities = sorted({r["city"] for r in train_rows})
print(len(train_rows), "offers from", cities)


def tensors(rows):
    x = torch.tensor([[float(r[c]) for c in NUMERIC] for r in rows])
    c = torch.tensor([cities.index(r["city"]) for r in rows])
    y = torch.tensor([math.log(float(r["price_eur"])) for r in rows])
    return x, nn.functional.one_hot(c, len(cities)).float(), y


x, c, y = tensors(train_rows)
xt, ct, yt = tensors(test_rows)
mean, std = x.mean(0), x.std(0)
x, xt = torch.cat([(x - mean) / std, c], 1), torch.cat([(xt - mean) / std, ct], 1)
y_mean, y_std = y.mean(), y.std()

net = nn.Sequential(nn.Linear(x.shape[1], 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
EPOCHS, BATCH = 30, 100
optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
sched = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS)

for epoch in range(EPOCHS):
    perm = torch.randperm(len(x))
    running = 0.0
    for i in range(0, len(x), BATCH):
        b = perm[i:i + BATCH]
        pred = net(x[b]).squeeze(1)
        loss = nn.functional.mse_loss(pred, (y[b] - y_mean) / y_std)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        running += loss.item() * len(b)
    sched.step()
    if epoch % 5 == 4:
        print(f"epoch {epoch + 1:3d}  mse {running / len(x):.4f}")

with torch.no_grad():
    pred = net(xt).squeeze(1) * y_std + y_mean
mape = ((pred.exp() - yt.exp()).abs() / yt.exp()).mean().item()
print(f"held-out mean absolute percentage error {100 * mape:.2f} %")
