import csv
import sys

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

folder = sys.argv[1]
torch.manual_seed(35)
TEMPERATURE, BATCH = 0.1, 60


def features(name):
    blob = np.load(f"{folder}/{name}.npz")
    return torch.tensor(blob["x"].astype(np.float32)), torch.tensor(blob["speaker"])


def read_pairs():
    with open(f"{folder}/pairs.csv", newline="") as f:
        return torch.tensor([[int(r["anchor"]), int(r["positive"])] for r in csv.DictReader(f)])


class VoiceEncoder(nn.Module):
    def __init__(self, n_in=32, dim=16):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(n_in, 96), nn.ReLU(), nn.Linear(96, dim))

    def forward(self, x):
        return F.normalize(self.net(x), dim=1)


def same_speaker_recall(model, x, speaker):
    model.eval()
    with torch.no_grad():
        z = model(x)
    sim = z @ z.t()
    sim.fill_diagonal_(-2)
    return (speaker[sim.argmax(1)] == speaker).float().mean().item()


x, speaker = features("train")
xv, val_speaker = features("val")
pairs = read_pairs()
model = VoiceEncoder()
opt = torch.optim.Adam(model.parameters(), lr=3e-3)
print(f"untrained: recall@1 {same_speaker_recall(model, xv, val_speaker):.3f}")
for epoch in range(6):
    model.train()
    total = 0.0
    batches = torch.randperm(len(pairs)).split(BATCH)
    for idx in batches:
        a, p = pairs[idx].t()
        scores = model(x[a]) @ model(x[p]).t() / TEMPERATURE
        other = speaker[a][:, None] == speaker[p][None, :]
        other.fill_diagonal_(False)
        scores = scores.masked_fill(other, -1e9)
        loss = F.cross_entropy(scores, torch.arange(len(idx)))
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss.item()
    print(f"epoch {epoch} loss {total / len(batches):.3f} recall@1 on new speakers {same_speaker_recall(model, xv, val_speaker):.3f}")
