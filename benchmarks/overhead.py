"""What watching costs: the same loop plain and under `Watch` with every rule on, interleaved in one process, as ratios
of medians.

    python benchmarks/overhead.py [--blocks 15] [--device cuda]

A block is a fresh run of some steps, plain or watched, in turns. "step" compares the median steps of neighbouring
blocks; "run" compares the whole blocks, so the costly looks at a run's first steps are inside it. Long runs are
measured as a whole: after the first thousand steps watching pauses, and with `--budget` it pauses earlier. Memory is
the peak of two fresh processes, one plain, one watched.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from time import perf_counter

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from torch import Tensor, nn

from trueloop.doctor.watch import Watch
from trueloop.usercode.settings import Settings

Loop = Callable[[int], list[float]]
"""Runs so many steps; hands back the seconds of each."""

STEPS = 200
BUDGET, BUDGET_STEPS = 0.05, 3000
LONG_STEPS = 30_000
DEVICE = torch.device("cpu")


@dataclass(frozen=True)
class Workload:
    name: str
    build: Callable[[], Loop]
    """A fresh model and optimizer; returns a loop over n steps."""
    steps: int
    bar: float


def mlp() -> Loop:
    """784-256-256-10 with dropout, batch 64, Adam."""
    model = nn.Sequential(
        nn.Linear(784, 256),
        nn.ReLU(),
        nn.Dropout(0.2),
        nn.Linear(256, 256),
        nn.ReLU(),
        nn.Dropout(0.2),
        nn.Linear(256, 10),
    ).to(DEVICE)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    criterion = nn.CrossEntropyLoss()
    images, labels = torch.randn(64 * 20, 784, device=DEVICE), torch.randint(0, 10, (64 * 20,), device=DEVICE)

    def loop(steps: int) -> list[float]:
        times = []
        for i in range(steps):
            began = perf_counter()
            at = 64 * (i % 20)
            x, y = images[at : at + 64], labels[at : at + 64]
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
            times.append(perf_counter() - began)
        return times

    return loop


def transformer_block() -> Loop:
    """One encoder block, d=512, 8 heads, 8 sequences of 128, AdamW."""
    block = nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True)
    head = nn.Linear(512, 64)
    model = nn.Sequential(block, head).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    criterion = nn.CrossEntropyLoss()
    x, y = torch.randn(8, 8, 128, 512, device=DEVICE), torch.randint(0, 64, (8, 8, 128), device=DEVICE)

    def loop(steps: int) -> list[float]:
        times = []
        for i in range(steps):
            began = perf_counter()
            optimizer.zero_grad()
            loss = criterion(model(x[i % 8]).flatten(0, 1), y[i % 8].flatten())
            loss.backward()
            optimizer.step()
            times.append(perf_counter() - began)
        return times

    return loop


class _Gpt(nn.Module):
    """GPT-2 124M in shape: 12 layers, d=768, 12 heads, 1,024 tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(50304, 768), nn.Embedding(1024, 768)
        layer = nn.TransformerEncoderLayer(768, 12, 3072, 0.0, "gelu", batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 12, enable_nested_tensor=False)
        self.head = nn.Linear(768, 50304, bias=False)
        self.mask = nn.Buffer(nn.Transformer.generate_square_subsequent_mask(1024))

    def forward(self, tokens: Tensor) -> Tensor:
        hidden = self.tokens(tokens) + self.places.weight
        out: Tensor = self.head(self.layers(hidden, self.mask, is_causal=True))
        return out


def gpt() -> Loop:
    """124 M parameters, 8 sequences of 1,024 tokens, bf16 autocast, fused AdamW."""
    model = _Gpt().to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    tokens = torch.randint(0, 50304, (8, 8, 1025), device=DEVICE)

    def loop(steps: int) -> list[float]:
        times = []
        for i in range(steps):
            began = perf_counter()
            optimizer.zero_grad()
            with torch.autocast(DEVICE.type, torch.bfloat16):
                out = model(tokens[i % 8, :, :-1])
                loss = nn.functional.cross_entropy(out.flatten(0, 1), tokens[i % 8, :, 1:].flatten())
            loss.backward()
            optimizer.step()
            torch.cuda.synchronize()
            times.append(perf_counter() - began)
        return times

    return loop


MLP = Workload("MLP 784-256-256-10, batch 64", mlp, STEPS, 1.25)
WORKLOADS = {
    "cpu": (MLP, Workload("transformer block d=512", transformer_block, 12, 1.05)),
    "cuda": (MLP, Workload("GPT-2 124M, 8 x 1,024 tokens, bf16", gpt, 60, 1.10)),
}


def whole(loop: Loop, steps: int) -> float:
    began = perf_counter()
    loop(steps)
    if DEVICE.type == "cuda":
        torch.cuda.synchronize()
    return perf_counter() - began


def in_turns(workload: Workload, steps: int, blocks: int) -> tuple[list[float], list[float]]:
    """Watched over plain, per pair of neighbouring blocks: (median step, whole block)."""
    workload.build()(steps)
    by_step: list[float] = []
    by_run: list[float] = []
    for block in range(blocks):
        times: dict[bool, list[float]] = {}
        for watched in (block % 2 == 0, block % 2 == 1):
            loop = workload.build()
            if watched:
                with Watch(settings=Settings()):
                    times[True] = loop(steps)
            else:
                times[False] = loop(steps)
        by_step.append(median(times[True]) / median(times[False]))
        by_run.append(sum(times[True]) / sum(times[False]))
    return sorted(by_step), sorted(by_run)


def shown(ratios: list[float]) -> str:
    """Median, and the quartiles."""
    return f"{median(ratios):.3f} ({ratios[len(ratios) // 4]:.3f} .. {ratios[3 * len(ratios) // 4]:.3f})"


def long_runs(rounds: int, steps: int, budget: float | None) -> list[float]:
    """Watched over plain, whole runs of the MLP."""
    ratios = []
    for _ in range(rounds):
        plain = whole(mlp(), steps)
        with Watch(settings=Settings(), budget=budget):
            watched = whole(mlp(), steps)
        ratios.append(watched / plain)
    return sorted(ratios)


def peak(workload: Workload, watched: bool) -> int:
    """Peak resident memory of a fresh process that runs this file, in kB."""
    words = [sys.executable, __file__, "--device", DEVICE.type, "--peak", workload.name]
    result = subprocess.run([*words, "--watched"] if watched else words, capture_output=True, text=True, check=True)
    return int(result.stdout.split()[-1])


def run_once(workload: Workload, watched: bool) -> None:
    """Run, and print the peak of resident memory."""
    if watched:
        with Watch(settings=Settings()):
            workload.build()(workload.steps)
    else:
        workload.build()(workload.steps)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


def main() -> int:
    global DEVICE
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--blocks", type=int, default=15)
    parser.add_argument("--long-rounds", type=int, default=3)
    parser.add_argument("--device", choices=sorted(WORKLOADS), default="cpu")
    parser.add_argument("--peak", metavar="WORKLOAD", help="run it once and print the peak of resident memory, in kB")
    parser.add_argument("--watched", action="store_true")
    options = parser.parse_args()
    DEVICE = torch.device(options.device)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    workloads = WORKLOADS[options.device]
    if options.peak:
        run_once(next(w for w in workloads if w.name == options.peak), options.watched)
        return 0
    print("| loop | step, watched / plain | run, watched / plain | bar | memory |")
    print("|---|---|---|---|---|")
    met = True
    for workload in workloads:
        plain, watched = peak(workload, False), peak(workload, True)
        by_step, by_run = in_turns(workload, workload.steps, options.blocks)
        met &= median(by_step) <= workload.bar and watched <= 1.05 * plain
        print(
            f"| {workload.name}, {workload.steps} steps | {shown(by_step)} | {shown(by_run)} | {workload.bar} | "
            f"{watched / plain:.3f} ({plain // 1024} -> {watched // 1024} MB) |",
            flush=True,
        )
    for name, steps, budget, bar in (
        (f"the MLP, {LONG_STEPS:,} steps", LONG_STEPS, None, 1.10),
        (f"the MLP with --budget 5%, {BUDGET_STEPS:,} steps", BUDGET_STEPS, BUDGET, 1.07),
    ):
        ratios = long_runs(options.long_rounds, steps, budget)
        met &= median(ratios) <= bar
        print(f"| {name} | | {shown(ratios)} | {bar} | |", flush=True)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
