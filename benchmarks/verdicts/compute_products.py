"""Large products on one thread."""

import os
import sys
from contextlib import nullcontext

import torch
from timing import Stopwatch
from torch import nn

change = sys.argv[1] if len(sys.argv) > 1 else ""
BATCH, STEPS, WIDTH = 512, 40, 1024
torch.manual_seed(0)
if change == "threads":
    torch.set_num_threads(os.cpu_count() or 1)
model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
inputs, targets = torch.randn(BATCH, WIDTH), torch.randint(0, 10, (BATCH,))
watch = Stopwatch(BATCH)
for _ in range(STEPS):
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16) if change == "precision" else nullcontext():
        loss = nn.functional.cross_entropy(model(inputs), targets)
    loss.backward()
    optimizer.step()
    watch.lap()
watch.tell()
