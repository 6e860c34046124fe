import json
import sys

import numpy as np
import torch
import torch.nn as nn
from torch.nn.utils.rnn import pack_padded_sequence

FOLDER = sys.argv[1]
torch.manual_seed(6)


def load(part):
    """Half-hourly litres per minute of single households, zero-padded at the end."""
    flow = np.load(f"{FOLDER}/flow_{part}.npy").astype(np.float32)
    lengths = np.loadtxt(f"{FOLDER}/lengths_{part}.txt", dtype=np.int64)
    kind = np.load(f"{FOLDER}/kind_{part}.npy")
    return torch.from_numpy(np.log1p(flow)), torch.from_numpy(lengths), torch.from_numpy(kind)


class FaultGRU(nn.Module):
    def __init__(self, classes, hidden=48):
        super().__init__()
        self.conv = nn.Conv1d(1, 16, 9, stride=4, padding=4)
        self.gru = nn.GRU(16, hidden, batch_first=True)
        self.drop = nn.Dropout(0.2)
        self.out = nn.Linear(hidden, classes)

    def forward(self, flow, lengths):
        x = torch.relu(self.conv(flow.unsqueeze(1))).transpose(1, 2)
        packed = pack_padded_sequence(x, (lengths + 3) // 4, batch_first=True, enforce_sorted=False)
        _, h = self.gru(packed)
        return self.out(self.drop(h[0]))


with open(f"{FOLDER}/kinds.json") as f:
    names = json.load(f)
flow, lengths, kind = load("train")
vflow, vlengths, vkind = load("valid")
inside = torch.arange(flow.shape[1]) < lengths[:, None]
mean, std = flow[inside].mean(), flow[inside].std()
flow, vflow = (flow - mean) / std, (vflow - mean) / std

net = FaultGRU(len(names))
opt = torch.optim.Adam(net.parameters(), lr=4e-3)
steps_per_epoch, epochs = len(flow) // 50, 10
sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, steps_per_epoch * epochs)
ce = nn.CrossEntropyLoss()

for epoch in range(epochs):
    net.train()
    order, total = torch.randperm(len(flow)), 0.0
    for s in range(steps_per_epoch):
        i = order[50 * s:50 * (s + 1)]
        opt.zero_grad()
        loss = ce(net(flow[i], lengths[i]), kind[i])
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
        sched.step()
        total += loss.item()
    net.eval()
    with torch.no_grad():
        guess = net(vflow, vlengths).argmax(1)
    if epoch % 2 == 1:
        print(f"epoch {epoch + 1:2d}  loss {total / steps_per_epoch:.3f}  valid accuracy {(guess == vkind).float().mean():.3f}")

for k, name in enumerate(names):
    print(f"{name:15s} recall {(guess[vkind == k] == k).float().mean():.2f}")
