"""Motor condition (ok / imbalance / looseness) from raw accelerometer counts."""
import json
import sys
from pathlib import Path
import numpy as np
import torch
from torch import nn
import torch.nn.functional as F

folder = Path(sys.argv[1])
torch.manual_seed(2)
data = np.load(folder / "recordings.npz")
meta = json.loads((folder / "meta.json").read_text())
counts = torch.tensor(data["counts"].astype(np.float32))
label = torch.tensor(data["label"].astype(np.int64))
perm = torch.randperm(len(counts), generator=torch.Generator().manual_seed(2))
n_val = len(counts) // 4
val, train = perm[:n_val], perm[n_val:]
signal = counts * meta["g_per_count"]
mean, std = signal[train].mean(), signal[train].std()
signal = ((signal - mean) / std).unsqueeze(1)
print(f"{len(train)} train recordings, rms {std:.2f} g, classes {meta['classes']}")


class VibrationNet(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv1d(1, 12, 9, stride=2), nn.ReLU(),
            nn.Conv1d(12, 24, 5, stride=2), nn.ReLU(),
            nn.AdaptiveAvgPool1d(4), nn.Flatten())
        self.fc = nn.Linear(96, classes)

    def forward(self, x):
        return self.fc(self.conv(x))


model = VibrationNet(len(meta["classes"]))
optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
for epoch in range(18):
    model.train()
    total = 0.0
    for idx in train[torch.randperm(len(train))].split(32):
        loss = F.cross_entropy(model(signal[idx]), label[idx])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item() * len(idx)
    model.eval()
    with torch.no_grad():
        pred = model(signal[val]).argmax(1)
    acc = (pred == label[val]).float().mean().item()
    if epoch % 4 == 1:
        print(f"epoch {epoch:2d} loss {total / len(train):.3f} val acc {acc:.3f}")
for k, name in enumerate(meta["classes"]):
    print(f"  {name}: recall {(pred[label[val] == k] == k).float().mean():.2f}")
