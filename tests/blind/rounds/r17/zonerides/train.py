import csv
import glob
import math
import os
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

folder = sys.argv[1]
torch.manual_seed(11)


def read_month(path):
    feats, zones, target = [], [], []
    with open(path) as fh:
        for r in csv.DictReader(fh):
            h = float(r["hour"]) / 24 * 2 * math.pi
            feats.append([math.sin(h), math.cos(h), float(int(r["weekday"]) >= 5), float(r["temp_c"]),
                          float(r["rain_mm"]), float(r["event_distance"])])
            zones.append(int(r["zone"]))
            target.append(float(r["driver_requests"]))
    return torch.tensor(feats), torch.tensor(zones), torch.tensor(target)


months = sorted(glob.glob(os.path.join(folder, "rides_*.csv")))
parts = [read_month(p) for p in months]
train = [torch.cat(t) for t in zip(*parts[:-1])]
test = parts[-1]

mean, std = train[0].mean(0), train[0].std(0)


class DemandNet(nn.Module):
    def __init__(self, n_zones=9, n_feats=6):
        super().__init__()
        self.zone = nn.Embedding(n_zones, 6)
        self.mlp = nn.Sequential(nn.Linear(n_feats + 6, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, x, z):
        x = (x - mean) / std
        return self.mlp(torch.cat([x, self.zone(z)], 1)).squeeze(1)


net = DemandNet()
opt = torch.optim.Adam(net.parameters(), lr=2e-3)
epochs, bs = 8, 128
sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, epochs)
for epoch in range(epochs):
    net.train()
    running = 0.0
    for ix in torch.randperm(len(train[2])).split(bs):
        log_rate = net(train[0][ix], train[1][ix])
        loss = F.poisson_nll_loss(log_rate, train[2][ix])
        opt.zero_grad()
        loss.backward()
        opt.step()
        running += loss.item() * len(ix)
    sched.step()
    print(f"epoch {epoch}  poisson nll {running / len(train[2]):.3f}")

net.eval()
with torch.no_grad():
    pred = net(test[0], test[1]).exp()
print(f"test month: MAE {(pred - test[2]).abs().mean():.3f} requests, mean demand {test[2].mean():.1f}")
