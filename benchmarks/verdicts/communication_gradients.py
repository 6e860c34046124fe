"""Two ranks, a wide model and a tiny batch: gradients travel more than anything is computed."""

import sys
from contextlib import nullcontext

import torch
import torch.distributed as dist
from timing import Stopwatch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

change = sys.argv[1] if len(sys.argv) > 1 else ""
BATCH, STEPS, WIDTH = 4, 60, 1024
EVERY = 4 if change == "accumulate" else 1
dist.init_process_group("gloo")
torch.manual_seed(0)
model = DistributedDataParallel(nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(6))))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
inputs = torch.randn(BATCH, WIDTH)
watch = Stopwatch(BATCH * EVERY)
for _ in range(STEPS):
    optimizer.zero_grad()
    for micro in range(EVERY):
        with nullcontext() if micro == EVERY - 1 else model.no_sync():
            model(inputs).square().mean().backward()
    optimizer.step()
    watch.lap()
if dist.get_rank() == 0:
    watch.tell()
dist.destroy_process_group()
