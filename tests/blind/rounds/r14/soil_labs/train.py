import sys
from pathlib import Path

import torch
import torch.nn as nn
import torch.nn.functional as F

root = Path(sys.argv[1])
torch.manual_seed(5)
SOILS = ["sand", "silt", "clay"]


def read_part(part):
    spectra, soils = [], []
    for line in (root / f"{part}_spectra.tsv").read_text().splitlines():
        spectra.append([float(v) for v in line.split("\t")[1:]])
    for line in (root / f"{part}_lab.tsv").read_text().splitlines():
        soils.append(SOILS.index(line.split("\t")[1]))
    assert len(spectra) == len(soils)
    return torch.tensor(spectra), torch.tensor(soils)


x, y = read_part("train")
x_test, y_test = read_part("test")
centre, spread = x.mean(0), x.std(0)
x, x_test = (x - centre) / spread, (x_test - centre) / spread

model = nn.Sequential(nn.Linear(20, 32), nn.Tanh(), nn.Dropout(0.1), nn.Linear(32, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
for epoch in range(20):
    model.train()
    total = 0.0
    for pick in torch.randperm(len(x)).split(60):
        loss = F.cross_entropy(model(x[pick]), y[pick])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item() * len(pick)
    if (epoch + 1) % 5 == 0:
        print("epoch", epoch + 1, "cross entropy", round(total / len(x), 4))
model.eval()
with torch.no_grad():
    acc = (model(x_test).argmax(1) == y_test).float().mean().item()
print("test accuracy", round(acc, 3))
