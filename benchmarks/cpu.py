"""A step of fashion-mlp's network on this machine's CPU: ours, eager and as one compiled function, beside the same loop
written by hand.

    python benchmarks/cpu.py [--rounds 10] [--steps 50]

784-256-256-10 with dropout 0.2, batches of 64 from random uint8 images in memory, made ready in each step, AdamW. First
on two threads, then on one, each in a process of its own, in rounds that take turns. A cost is the time per step; the
least of all rounds is what the machine can do, the median what it did: if they lie far apart, somebody else was at
work, and threads that wait for each other suffer most.

    ours        the real loop: order, schedule, norm of the gradient and guard in each step, a line of metrics every 50,
    the rules' looks.
                Left out: the first 50 steps after each start, of which many are looked into; building the compiled
                function, shown apart.
    by hand     batch, zero_grad, forward, loss, backward, step. Nothing else.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Literal

import torch
import torch.nn.functional as F  # noqa: N812 - as everybody writes it

import trueloop
from trueloop.data.idx import Normalized
from trueloop.engine.loop import Loop
from trueloop.hook import Row
from trueloop.recipe.recipe import DataRequest
from trueloop.recipes.fashion_mlp import network

LEAST_GAIN = 1.5
"""Ours over the plain loop, on two threads: the bar."""
BATCH, LOG_EVERY, IMAGES = 64, 50, 60_000
PLAIN, WHOLE = "by hand, AdamW as it comes", "trueloop, program=compiled_step"
READY = Normalized(mean=0.286, spread=0.353)

Round = Callable[[int], tuple[float, float]]
"""Trains so many steps; seconds of the clock and of the CPU that they took."""


def data(request: DataRequest | None = None) -> trueloop.Splits:
    draws = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (IMAGES, 1, 28, 28), dtype=torch.uint8, generator=draws)
    return trueloop.Splits(
        train=trueloop.Tensors(images, torch.randint(0, 10, (IMAGES,), generator=draws)), prepare=READY
    )


def by_hand(fused: bool | None) -> Round:
    model, train = network(), data().train
    assert isinstance(train, trueloop.Tensors)
    images, labels = train.inputs, train.targets
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.02, fused=fused)

    def run(steps: int) -> tuple[float, float]:
        order = torch.randperm(IMAGES)
        begun = time.perf_counter(), time.process_time()
        for step in range(steps):
            chosen = order[step * BATCH : (step + 1) * BATCH]
            x, y = READY(images[chosen]), labels[chosen]
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        return time.perf_counter() - begun[0], time.process_time() - begun[1]

    return run


class Timed(trueloop.Hook):
    """When each line of metrics came."""

    def __init__(self) -> None:
        self.lines: dict[int, tuple[float, float]] = {}

    def logged(self, row: Row) -> None:
        self.lines[row.step] = time.perf_counter(), time.process_time()


def ours(program: Literal["eager", "compiled_step"]) -> Round:
    timed = Timed()
    recipe = trueloop.Recipe(
        name="cost", model=network, data=data, device="cpu", optimizer="adamw", lr=2e-3, weight_decay=0.02, steps=10**6, batch=BATCH,  # noqa: E501
        log_every=LOG_EVERY, trackers=(), hooks=(timed,), program=program,
    )  # fmt: skip
    loop = Loop.of(recipe)
    loop.parts.total_steps = 0

    def run(steps: int) -> tuple[float, float]:
        first = loop.parts.total_steps + LOG_EVERY
        loop.parts.total_steps = first + steps
        loop.train()
        (clock, cpu), (end, end_cpu) = timed.lines[first], timed.lines[first + steps]
        return end - clock, end_cpu - cpu

    return run


def contenders() -> dict[str, Round]:
    return {
        PLAIN: by_hand(None),
        "by hand, fused AdamW": by_hand(True),
        "trueloop, eager": ours("eager"),
        WHOLE: ours("compiled_step"),
    }


def measured(threads: int, rounds: int, steps: int) -> None:
    """One table."""
    torch.set_num_threads(threads)
    entered = list(contenders().items())
    building = 0.0
    for _, run in entered:  # to warm up; the last is the compiled one
        begun = time.perf_counter()
        run(LOG_EVERY)
        building = time.perf_counter() - begun
    costs: dict[str, list[tuple[float, float]]] = {name: [] for name, _ in entered}
    for turn in range(rounds):
        at = turn % len(entered)
        for name, run in entered[at:] + entered[:at]:
            clock, cpu = run(steps)
            costs[name].append((1e3 * clock / steps, 1e3 * cpu / steps))
        print(f"\r{threads} threads: round {turn + 1} of {rounds}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    machine = f"{os.cpu_count()} cores ({platform.machine()})"
    print(f"\n{threads} threads of {machine}, torch {torch.__version__}, {rounds} rounds of {steps} steps\n")
    print(
        "| loop | ms per step, least | median | CPU ms, least | gain over the plain loop: least | median "
        "|\n|---|---|---|---|---|---|"
    )
    plain = [clock for clock, _ in costs[PLAIN]]
    for name, each in costs.items():
        clocks = [clock for clock, _ in each]
        gains = (
            f"{min(plain) / min(clocks):.2f} | "
            f"{median(one / other for one, other in zip(plain, clocks, strict=True)):.2f}"
        )
        print(f"| {name} | {min(clocks):.2f} | {median(clocks):.2f} | {min(cpu for _, cpu in each):.2f} | {gains} |")
    gain = min(plain) / min(clock for clock, _ in costs[WHOLE])
    print(
        f"\nUntil the compiled function has taken its first 100 steps: {building:.1f} s, once a run; less where a "
        "cache has it."
    )
    if threads == 2:
        print(f"Bar on two threads: {LEAST_GAIN:.2f}; {'met' if gain >= LEAST_GAIN else 'NOT met'} with {gain:.2f}.")
        sys.exit(gain < LEAST_GAIN)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--steps", type=int, default=LOG_EVERY, help=f"a multiple of {LOG_EVERY}")
    parser.add_argument("--threads", type=int, help="this number only, in this process")
    options = parser.parse_args()
    if options.threads:
        measured(options.threads, options.rounds, options.steps)
        return 0
    codes = []
    for threads in (2, 1):  # how oneDNN shares its work is settled when it is first called: one process for each
        command = [
            sys.executable,
            __file__,
            "--threads",
            str(threads),
            "--rounds",
            str(options.rounds),
            "--steps",
            str(options.steps),
        ]
        codes.append(
            subprocess.run(command, env={**os.environ, "OMP_NUM_THREADS": str(threads)}, check=False).returncode
        )
    return max(codes)


if __name__ == "__main__":
    sys.exit(main())
