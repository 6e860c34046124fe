"""A small network on a device: its kernels take less time than the host needs to launch them."""

import sys

import torch
from timing import Stopwatch
from torch import nn

change = sys.argv[1] if len(sys.argv) > 1 else ""
STEPS, WIDTH = 400, 256
BATCH = 256 if change == "batch" else 64
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(784, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 10)).cuda()
optimizer = torch.optim.Adam(model.parameters(), fused=change == "fused", capturable=change == "graph")
inputs, targets = torch.randn(BATCH, 784, device="cuda"), torch.randint(0, 10, (BATCH,), device="cuda")


def step() -> None:
    optimizer.zero_grad(set_to_none=change != "graph")
    nn.functional.cross_entropy(model(inputs), targets).backward()
    optimizer.step()


replay = step
if change == "graph":
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    replay = graph.replay
watch = Stopwatch(BATCH)
for _ in range(STEPS):
    replay()
    watch.lap()
watch.tell()
