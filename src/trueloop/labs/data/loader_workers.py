"""loader-workers: How many workers should a DataLoader have?

A worker is a process that builds batches while the main process does something else. Workers pay where a sample takes
long, by waiting (disk, network) or by computing. They cost where a sample is cheap: each has to start, and each batch
travels between processes.

You will see the curve over 0, 1, 2 and 4 workers for three kinds of samples. Where it stops falling depends on your
machine.
"""

import os
import time
import warnings
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from trueloop.labs.lab import Lab, Page
from trueloop.results.document import Axis, Plot, Series

__all__ = ["LAB"]

WORKERS = (0, 1, 2, 4)


class Samples(Dataset[Tensor]):
    def __init__(self, kind: str, size: int) -> None:
        self.kind, self.size = kind, size

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> Tensor:
        if self.kind == "waiting":
            time.sleep(0.01)  # a disk or a network
        elif self.kind == "computing":
            sum(number * number for number in range(30_000))  # Python, which holds the interpreter's lock
        return torch.tensor(float(index))


def epoch(kind: str, size: int, workers: int) -> tuple[float, list[float]]:
    """Seconds of a pass, without the start of the workers, and the samples in their order."""
    loader = DataLoader(Samples(kind, size), batch_size=8, num_workers=workers, persistent_workers=workers > 0)
    list(loader)  # the first pass starts the workers
    began = time.perf_counter()
    batches = list(loader)
    return time.perf_counter() - began, torch.cat(batches).tolist()


def start_of_workers(workers: int) -> float:
    """Seconds until the first batch."""
    began = time.perf_counter()
    next(iter(DataLoader(Samples("cheap", 64), batch_size=8, num_workers=workers)))
    return time.perf_counter() - began


@dataclass(frozen=True)
class Measured:
    seconds: dict[str, dict[int, float]]  # kind -> workers -> of a pass
    same_order: bool
    start: dict[int, float]
    cores: int


def measure() -> Measured:
    warnings.filterwarnings("ignore", message="This DataLoader will create 4 worker")  # more than cores, on purpose
    torch.set_num_threads(1)
    sizes = {"waiting": 96, "computing": 96, "cheap": 256}
    passes = {kind: {workers: epoch(kind, size, workers) for workers in WORKERS} for kind, size in sizes.items()}
    seconds = {kind: {workers: each[0] for workers, each in found.items()} for kind, found in passes.items()}
    orders = {tuple(found[workers][1]) for found in (passes["waiting"],) for workers in WORKERS}
    start = {workers: start_of_workers(workers) for workers in (0, 2)}
    return Measured(seconds, len(orders) == 1, start, os.cpu_count() or 1)


def answer(page: Page, measured: Measured) -> None:
    seconds = measured.seconds
    rows = [(kind, *(found[workers] * 1e3 for workers in WORKERS)) for kind, found in seconds.items()]
    heads = ("a sample is", *(f"{workers} workers" for workers in WORKERS))
    note = f"96 samples that wait 10 ms, 96 that compute, 256 cheap ones. This machine has {measured.cores} cores."
    page.table("Milliseconds of a pass", heads, rows, note)
    lines = tuple(
        Series(kind, tuple((workers, found[workers]) for workers in WORKERS), number, dots=True)
        for number, (kind, found) in enumerate(seconds.items())
    )
    page.show(Plot("A pass over the data", lines, Axis("workers", ticks=WORKERS), Axis("", "log", "s")))
    wait = seconds["waiting"]
    gain = wait[0] / wait[4]
    page.says(f"Where samples wait, workers help whatever the number of cores: {gain:.1f} times with 4.", gain > 1.7)
    page.says("Two are better than none there, and four better than one.", wait[2] < wait[0] and wait[4] < wait[1])
    cheap = seconds["cheap"]
    slower = cheap[2] / cheap[0]
    page.says(f"Where samples are cheap, workers slow it down: {slower:.0f} times with 2.", slower > 1)
    compute = seconds["computing"]
    best = min(WORKERS, key=lambda workers: compute[workers])
    share = compute[0] / compute[best]
    said = (
        f"Where samples compute, cores are the limit: here {best} workers were fastest, {share:.1f} times as fast as 0"
    )
    page.says(f"{said}. This depends on the machine and on its load.", share <= max(4, 2 * measured.cores))
    later = measured.start[2] > measured.start[0]
    page.says(f"The first batch comes later: after {measured.start[2] * 1e3:.0f} ms with 2 workers.", later)
    page.says("The order of the samples is the same with any number of workers.", measured.same_order)


LAB = Lab(code=(Samples, epoch, start_of_workers), measure=measure, answer=answer)
