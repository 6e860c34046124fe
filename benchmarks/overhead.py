"""What watching costs: the same loop plain and under `Watch` with every rule on, interleaved in one process, as ratios of medians.

    python benchmarks/overhead.py [--blocks 15] [--markdown]

Each block is a fresh run, so the costly looks at its first steps are inside the number. `--budget` is measured the same way, over one
long run. Memory is the peak of two forked children, one plain, one watched.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from time import perf_counter

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from torch import nn

from trueloop.doctor.watch import Watch
from trueloop.settings import Settings

STEPS = 200
BUDGET, BUDGET_STEPS = 0.05, 3000


@dataclass(frozen=True)
class Workload:
    name: str
    build: Callable[[], Callable[[int], None]]
    """A fresh model and optimizer; returns a loop over n steps."""
    steps: int
    bar: float


def mlp() -> Callable[[int], None]:
    """784-256-256-10 with dropout, batch 64, Adam."""
    model = nn.Sequential(
        nn.Linear(784, 256), nn.ReLU(), nn.Dropout(0.2), nn.Linear(256, 256), nn.ReLU(), nn.Dropout(0.2), nn.Linear(256, 10)
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    criterion = nn.CrossEntropyLoss()
    images, labels = torch.randn(64 * 20, 784), torch.randint(0, 10, (64 * 20,))

    def loop(steps: int) -> None:
        for i in range(steps):
            at = 64 * (i % 20)
            x, y = images[at : at + 64], labels[at : at + 64]
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()

    return loop


def transformer_block() -> Callable[[int], None]:
    """One encoder block, d=512, 8 heads, 8 sequences of 128, AdamW."""
    block = nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True)
    head = nn.Linear(512, 64)
    model = nn.Sequential(block, head)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    criterion = nn.CrossEntropyLoss()
    x, y = torch.randn(8, 8, 128, 512), torch.randint(0, 64, (8, 8, 128))

    def loop(steps: int) -> None:
        for i in range(steps):
            optimizer.zero_grad()
            loss = criterion(model(x[i % 8]).flatten(0, 1), y[i % 8].flatten())
            loss.backward()
            optimizer.step()

    return loop


WORKLOADS = (
    Workload("MLP 784-256-256-10, batch 64", mlp, STEPS, 1.25),
    Workload("transformer block d=512", transformer_block, 12, 1.05),
)


def seconds(loop: Callable[[int], None], steps: int) -> float:
    began = perf_counter()
    loop(steps)
    return perf_counter() - began


def ratio(workload: Workload, blocks: int) -> tuple[float, float, float]:
    """Watched over plain (median over pairs, lower and upper quartile); a pair is measured back to back, in turns first."""
    seconds(workload.build(), workload.steps)
    pairs: list[float] = []
    for block in range(blocks):
        times: dict[bool, float] = {}
        for watched in (block % 2 == 0, block % 2 == 1):
            loop = workload.build()
            if watched:
                with Watch(settings=Settings()):
                    times[True] = seconds(loop, workload.steps)
            else:
                times[False] = seconds(loop, workload.steps)
        pairs.append(times[True] / times[False])
    pairs.sort()
    return median(pairs), pairs[len(pairs) // 4], pairs[3 * len(pairs) // 4]


def budget_ratio(workload: Workload, rounds: int) -> float:
    """One long run asked to stay inside BUDGET, against the same run plain."""
    pairs = []
    for turn in range(rounds):
        times: dict[bool, float] = {}
        for watched in (turn % 2 == 0, turn % 2 == 1):
            loop = workload.build()
            if watched:
                with Watch(settings=Settings(), budget=BUDGET):
                    times[True] = seconds(loop, BUDGET_STEPS)
            else:
                times[False] = seconds(loop, BUDGET_STEPS)
        pairs.append(times[True] / times[False])
    return median(pairs)


def peak(workload: Workload, watched: bool) -> int:
    """Peak resident memory of a forked child, in kB."""
    reading, writing = os.pipe()
    if not os.fork():
        loop = workload.build()
        if watched:
            with Watch(settings=Settings()):
                loop(workload.steps)
        else:
            loop(workload.steps)
        os.write(writing, str(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss).encode())
        os._exit(0)
    os.wait()
    os.close(writing)
    with os.fdopen(reading) as pipe:
        return int(pipe.read())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--blocks", type=int, default=15)
    parser.add_argument("--budget-rounds", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    print("| loop | watched / plain | quartiles | bar | memory |")
    print("|---|---|---|---|---|")
    met = True
    for workload in WORKLOADS:
        memory = peak(workload, True) / peak(workload, False)
        middle, low, high = ratio(workload, options.blocks)
        met &= middle <= workload.bar and memory <= 1.05
        print(f"| {workload.name} | {middle:.3f} | {low:.3f} .. {high:.3f} | {workload.bar} | {memory:.3f} |", flush=True)
    asked = budget_ratio(WORKLOADS[0], options.budget_rounds)
    met &= asked <= 1.07
    print(f"| MLP with --budget 5% ({BUDGET_STEPS} steps) | {asked:.3f} | | 1.07 | |")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
