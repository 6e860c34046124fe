"""A data set whose samples are computed, in Python, as they are asked for."""

import sys

import torch
from timing import Stopwatch
from torch import nn
from torch.utils.data import DataLoader, Dataset

change = sys.argv[1] if len(sys.argv) > 1 else ""
BATCH, STEPS = 16, 150
torch.manual_seed(0)


class Computed(Dataset):
    def __len__(self) -> int:
        return BATCH * STEPS

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        total = sum(value * value % 7 for value in range(3000))
        return torch.full((64,), float(total % 7)), index % 3


def main() -> None:
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 3))
    optimizer = torch.optim.AdamW(model.parameters())
    loader = DataLoader(Computed(), batch_size=BATCH, shuffle=True, num_workers=2 if change == "workers" else 0)
    if change == "resident":
        inputs, targets = torch.randn(BATCH * STEPS, 64), torch.arange(BATCH * STEPS) % 3
        batches = ((inputs[index], targets[index]) for index in torch.randperm(BATCH * STEPS).split(BATCH))
    else:
        batches = iter(loader)
    watch = Stopwatch(BATCH)
    for inputs_, targets_ in batches:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs_), targets_).backward()
        optimizer.step()
        watch.lap()
    watch.tell()


if __name__ == "__main__":
    main()
