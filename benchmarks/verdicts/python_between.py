"""A loop that keeps statistics in plain Python, in every step."""

import sys

import torch
from timing import Stopwatch
from torch import nn

change = sys.argv[1] if len(sys.argv) > 1 else ""
BATCH, STEPS = 64, 200
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 3))
optimizer = torch.optim.AdamW(model.parameters())
inputs, targets = torch.randn(BATCH, 64), torch.randint(0, 3, (BATCH,))
history: list[float] = []
watch = Stopwatch(BATCH)
for step in range(STEPS):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(inputs), targets)
    loss.backward()
    optimizer.step()
    if change != "lift" or step % 100 == 0:
        history.append(sum((value * 0.5) ** 2 for value in range(30_000)))
    watch.lap()
watch.tell()
