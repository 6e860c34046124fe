"""A deep network of tiny layers, a tiny batch."""

import sys

import torch
from timing import Stopwatch
from torch import nn

change = sys.argv[1] if len(sys.argv) > 1 else ""
STEPS, WIDTH = 150, 16
BATCH = 32 if change == "batch" else 8
torch.manual_seed(0)
model = nn.Sequential(*(layer for _ in range(30) for layer in (nn.Linear(WIDTH, WIDTH), nn.ReLU())))
optimizer = torch.optim.AdamW(model.parameters(), fused=True if change == "fused" else None)
forward = torch.compile(model) if change == "compile" else model
inputs, targets = torch.randn(BATCH, WIDTH), torch.randn(BATCH, WIDTH)
watch = Stopwatch(BATCH)
for _ in range(STEPS):
    optimizer.zero_grad()
    nn.functional.mse_loss(forward(inputs), targets).backward()
    optimizer.step()
    watch.lap()
watch.tell()
