"""Large products on a device, in float32."""

import sys
from contextlib import nullcontext

import torch
from timing import Stopwatch
from torch import nn

change = sys.argv[1] if len(sys.argv) > 1 else ""
BATCH, STEPS, WIDTH = 8192, 60, 4096
torch.manual_seed(0)
model = nn.Sequential(
    nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 10)
).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
inputs, targets = torch.randn(BATCH, WIDTH, device="cuda"), torch.randint(0, 10, (BATCH,), device="cuda")
watch = Stopwatch(BATCH)
for _ in range(STEPS):
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=torch.bfloat16) if change == "precision" else nullcontext():
        loss = nn.functional.cross_entropy(model(inputs), targets)
    loss.backward()
    optimizer.step()
    watch.lap()
watch.tell()
