"""Long rows of elementwise operations over tensors that no cache holds."""

import os
import sys

import torch
from timing import Stopwatch
from torch import Tensor, nn

change = sys.argv[1] if len(sys.argv) > 1 else ""
BATCH, STEPS, WIDTH = 256, 40, 16_384
torch.manual_seed(0)
if change == "threads":
    torch.set_num_threads(os.cpu_count() or 1)


class Mixer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale, self.shift = nn.Parameter(torch.ones(WIDTH)), nn.Parameter(torch.zeros(WIDTH))

    def forward(self, value: Tensor) -> Tensor:
        for _ in range(6):
            value = (value * self.scale + self.shift).clamp(-3, 3) + 0.1 * value
        return value


model = Mixer()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
forward = torch.compile(model) if change == "compile" else model
inputs = torch.randn(BATCH, WIDTH)
watch = Stopwatch(BATCH)
for _ in range(STEPS):
    optimizer.zero_grad()
    forward(inputs).square().mean().backward()
    optimizer.step()
    watch.lap()
watch.tell()
