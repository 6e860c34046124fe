"""Large batches from ordinary memory to the device, and little to do with them there."""

import sys

import torch
from timing import Stopwatch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

change = sys.argv[1] if len(sys.argv) > 1 else ""
BATCH, STEPS, WIDTH = 256, 120, 65_536
PIN = change == "pin"


def main() -> None:
    torch.manual_seed(0)
    model = nn.Linear(WIDTH, 10).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    batch, targets = torch.randn(BATCH, WIDTH), torch.randint(0, 10, (BATCH,))
    if PIN:
        batch, targets = batch.pin_memory(), targets.pin_memory()
    if change == "resident":
        batch, targets = batch.cuda(), targets.cuda()
    loader = DataLoader(TensorDataset(torch.arange(STEPS)), batch_size=1)
    watch = Stopwatch(BATCH)
    copies, ready = torch.cuda.Stream(), None
    for _ in loader:
        if PIN:  # one batch ahead, on a stream of its own
            with torch.cuda.stream(copies):
                coming = batch.to("cuda", non_blocking=True), targets.to("cuda", non_blocking=True)
            inputs, labels = ready or coming
            torch.cuda.current_stream().wait_stream(copies)
            ready = coming
        else:
            inputs, labels = batch.to("cuda"), targets.to("cuda")
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()
        watch.lap()
    watch.tell()


if __name__ == "__main__":
    main()
