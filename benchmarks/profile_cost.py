"""What `trueloop profile` costs a run outside of its window: the same loop plain, timed by the clock, and after
everything was seen.

    python benchmarks/profile_cost.py [--rounds 21] [--steps 150]

Plain, watched and released blocks alternate in one process; a ratio is the median, over the rounds, of a block's median
step over that of the plain block beside it. Bars: the clock alone at most 3 % of a step of about half a millisecond,
which is told for what it is; after the observer has taken itself out, less than 1 %. Exits with 1 if the second is
missed.
"""

from __future__ import annotations

import argparse
import os
import sys
from statistics import median
from time import perf_counter

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from torch import nn

from trueloop.profile.observer import Observer

BAR = 1.01


def block(steps: int) -> float:
    """The median step of 784-256-256-10, batch 64, Adam."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10))
    optimizer = torch.optim.Adam(model.parameters())
    inputs, targets = torch.randn(64, 784), torch.randint(0, 10, (64,))
    times = []
    for _ in range(steps):
        began = perf_counter()
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), targets).backward()
        optimizer.step()
        times.append(perf_counter() - began)
    return median(times)


def watched(steps: int) -> float:
    """Only the clock: the course is held at its first timed stage."""
    observer = Observer(to_end=True)
    observer._course = observer._timed(lambda: False)
    observer.install()
    try:
        return block(steps)
    finally:
        observer.remove()


def released(steps: int) -> float:
    """After a whole course, when the observer has taken itself out at a call of the model."""
    observer = Observer(to_end=True, steps=30, window=1)
    observer.install()
    block(40)
    assert observer.over
    return block(steps)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--steps", type=int, default=150)
    options = parser.parse_args()
    torch.set_num_threads(1)
    block(options.steps)
    ratios: dict[str, list[float]] = {"the clock": [], "afterwards": []}
    step = []
    for turn in range(options.rounds):
        order = (block, watched, released) if turn % 2 else (released, watched, block)
        took = {work: work(options.steps) for work in order}
        step.append(took[block])
        ratios["the clock"].append(took[watched] / took[block])
        ratios["afterwards"].append(took[released] / took[block])
    print(
        f"a plain step: {median(step) * 1e3:.3f} ms, {options.rounds} rounds of {options.steps} steps, torch "
        f"{torch.__version__}"
    )
    for name, found in ratios.items():
        print(
            f"{name:<12} {median(found):.4f}x  (quartiles {sorted(found)[len(found) // 4]:.4f} to "
            f"{sorted(found)[3 * len(found) // 4]:.4f})"
        )
    return 0 if median(ratios["afterwards"]) < BAR else 1


if __name__ == "__main__":
    sys.exit(main())
