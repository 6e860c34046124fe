import json
import sys

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

folder = sys.argv[1]
torch.manual_seed(61)
with open(f"{folder}/augment.json") as f:
    AUG = json.load(f)


def load(part):
    blob = np.load(f"{folder}/{part}.npz")
    return torch.tensor(blob["mel"].astype(np.float32)), torch.tensor(blob["word"])


def add_noise(mel):
    low, high = AUG["snr_db"]
    snr = low + (high - low) * torch.rand(len(mel), 1, 1)
    level = mel.pow(2).mean((1, 2), keepdim=True).sqrt() * 10 ** (-snr / 20)
    return mel + level * torch.randn_like(mel)


def mask_time(mel):
    start = torch.randint(mel.size(2) - AUG["time_mask"], (len(mel), 1, 1))
    t = torch.arange(mel.size(2)).view(1, 1, -1)
    return mel.masked_fill((t >= start) & (t < start + AUG["time_mask"]), 0.0)


class WordNet(nn.Module):
    def __init__(self, bands=10, frames=12, words=8):
        super().__init__()
        self.fc1 = nn.Linear(bands * frames, 64)
        self.fc2 = nn.Linear(64, words)
        self.drop = nn.Dropout(0.2)

    def forward(self, mel):
        return self.fc2(self.drop(F.relu(self.fc1(mel.flatten(1)))))


x, y = load("train")
xv, yv = load("val")
mean, std = x.mean(), x.std()
x, xv = (x - mean) / std, (xv - mean) / std
model = WordNet()
opt = torch.optim.Adam(model.parameters(), lr=2e-3)
for epoch in range(12):
    model.train()
    total = 0.0
    for idx in torch.randperm(len(x)).split(30):
        loss = F.cross_entropy(model(mask_time(add_noise(x[idx]))), y[idx])
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss.item() * len(idx)
    model.eval()
    with torch.no_grad():
        acc = (model(xv).argmax(1) == yv).float().mean().item()
    if epoch % 3 == 2:
        print(f"epoch {epoch} loss {total / len(x):.3f} val accuracy {acc:.3f}")
