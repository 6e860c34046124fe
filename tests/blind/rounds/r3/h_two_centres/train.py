import csv
import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import ConcatDataset, DataLoader, TensorDataset

torch.manual_seed(4)
folder = Path(sys.argv[1])
FEATURES = ["diameter", "contrast", "texture", "spiculation", "age"]


def read_centre(name):
    x, y = [], []
    with open(folder / name) as f:
        for row in csv.DictReader(f):
            x.append([float(row[k]) for k in FEATURES])
            y.append(int(row["label"]) > 0)
    return torch.tensor(x), torch.tensor(y, dtype=torch.long)


class Classifier(nn.Module):
    def __init__(self, mean, std):
        super().__init__()
        self.register_buffer("mean", mean)
        self.register_buffer("std", std)
        self.net = nn.Sequential(nn.Linear(len(FEATURES), 24), nn.ReLU(), nn.Linear(24, 2))

    def forward(self, x):
        return self.net((x - self.mean) / self.std)


@torch.no_grad()
def evaluate(model, x, y):
    model.eval()
    pred = model(x).argmax(1)
    sens = (pred[y == 1] == 1).float().mean().item()
    spec = (pred[y == 0] == 0).float().mean().item()
    return (sens + spec) / 2, sens, spec


centres = [read_centre("centre_a.csv"), read_centre("centre_b.csv")]
val_x, val_y = read_centre("validation.csv")
all_x = torch.cat([c[0] for c in centres])
print(f"{[len(c[0]) for c in centres]} training lesions, {len(val_x)} validation lesions")
loader = DataLoader(ConcatDataset([TensorDataset(*c) for c in centres]), batch_size=40, shuffle=True)
model = Classifier(all_x.mean(0), all_x.std(0))
optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
for epoch in range(1, 13):
    model.train()
    total = 0.0
    for x, y in loader:
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    bal, sens, spec = evaluate(model, val_x, val_y)
    if epoch % 3 == 0:
        print(f"epoch {epoch} loss {total / len(loader):.4f} sensitivity {sens:.3f} specificity {spec:.3f}")
print(f"balanced accuracy {bal:.3f} (sensitivity {sens:.3f}, specificity {spec:.3f})")
