"""A model that does not fit under ddp within a memory limit, and trains under fsdp.

    python benchmarks/memory_limit.py [--limit 1500] [--blocks 16]

The kernel enforces the limit on each process by itself (RLIMIT_DATA: its private writable memory, set before Python
starts; `ulimit -d` of a shell is the same). The model has 16.8 MB of weights in each block, Adam, and two processes on
gloo; a run takes 6 steps, evaluates and writes a checkpoint after 3 and 6, and reads its best weights at the end. First
both strategies without a limit, then both within it. The losses of fsdp within the limit must be those of fsdp without.
Peaks are the largest VmData of a rank in /proc, read every few milliseconds. Linux only.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from trueloop.parallel.host_memory import LARGE

RANKS: Final = 2
PAUSE: Final = 0.003  # Seconds between two looks at a process
LIMIT: Final = 1500  # MB
BLOCKS: Final = 16
BLOCK_MB: Final = 2 * 1024 * 2048 * 4 / 1e6
RECIPE_FILE: Final = "large.py"
PATIENCE: Final = 900  # Seconds
RECIPE: Final = """
import torch
from torch import nn
from trueloop import Recipe
from trueloop.data.source import Facts, Splits
from trueloop.data.tensors import Tensors

WIDTH, INSIDE, BLOCKS = 1024, 2048, {blocks}


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, INSIDE, bias=False), nn.Linear(INSIDE, WIDTH, bias=False)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(x)))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks, self.head = nn.ModuleList(Block() for _ in range(BLOCKS)), nn.Linear(WIDTH, 1)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def read(request):
    draws = torch.Generator().manual_seed(0)
    inputs = torch.randn(72, WIDTH, generator=draws)
    targets = inputs[:, 0] + inputs[:, 1]
    train, valid = (Tensors(inputs[part], targets[part]) for part in (slice(0, 48), slice(48, None)))
    return Splits(train, valid, facts=Facts((WIDTH,), (), outputs=1))


recipe = Recipe(
    name="large", model=Net, data=read, task="regression", optimizer="adam", lr=1e-4, batch=16, steps=6, log_every=1,
    evaluate_every=3, save_every=3, keep=1, trackers=(), seed=0,
)
"""


@dataclass(frozen=True)
class Outcome:
    """How a run ended."""

    code: int
    losses: tuple[float, ...]  # Of each step
    peaks: tuple[int, ...]  # Bytes of each process
    said: str  # On stdout and stderr

    @property
    def finished(self) -> bool:
        return self.code == 0


def trained(folder: Path, parallel: str, limit: int | None) -> Outcome:
    """`limit`: bytes of each process."""
    name = f"{parallel}-{'limited' if limit else 'free'}"
    typed = ["train", RECIPE_FILE, "--nproc", str(RANKS), "--set", f"parallel={parallel}", "--name", name, "--quiet"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    if parallel == "ddp":  # as fsdp sets it for itself, so that only the strategies differ
        environment["MALLOC_MMAP_THRESHOLD_"] = str(LARGE)
    with (folder / f"{name}.log").open("w+", encoding="utf-8") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "trueloop", *typed],
            cwd=folder,
            env=environment,
            stdout=log,
            stderr=log,
            preexec_fn=None if limit is None else lambda: resource.setrlimit(resource.RLIMIT_DATA, (limit, limit)),
        )
        watch = Watch(process.pid)
        watch.start()
        try:
            code = process.wait(PATIENCE)
        finally:
            process.kill()
            watch.stop()
        log.seek(0)
        said = log.read()
    return Outcome(code, losses_of(folder / "runs" / name), watch.peaks(), said)


def losses_of(run: Path) -> tuple[float, ...]:
    file = run / "metrics.jsonl"
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()] if file.is_file() else []
    return tuple(row["loss"] for row in rows if row.get("kind") == "train")


class Watch(threading.Thread):
    """The peaks of the children of a launcher, which are the ranks."""

    def __init__(self, launcher: int) -> None:
        super().__init__(daemon=True)
        self.launcher, self._over = launcher, threading.Event()
        self._peaks: dict[int, int] = {}

    def run(self) -> None:
        children = Path(f"/proc/{self.launcher}/task/{self.launcher}/children")
        while not self._over.wait(PAUSE):
            try:
                pids = [int(pid) for pid in children.read_text().split()]
            except OSError:
                return  # the launcher has ended
            for pid in pids:
                self._peaks[pid] = max(self._peaks.get(pid, 0), data_of(pid))

    def stop(self) -> None:
        self._over.set()
        self.join()

    def peaks(self) -> tuple[int, ...]:
        """In the order in which the processes were started."""
        return tuple(self._peaks[pid] for pid in sorted(self._peaks)[:RANKS])


def data_of(pid: int) -> int:
    """Bytes of private writable memory: what RLIMIT_DATA counts. 0 if the process has ended."""
    try:
        found = re.search(r"^VmData:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    except OSError:
        return 0
    return int(found[1]) * 1024 if found else 0


def ended(outcome: Outcome) -> str:
    """In a cell of the table."""
    if outcome.finished:
        return f"finished, {len(outcome.losses)} steps"
    said = [line for line in outcome.said.splitlines() if line.startswith("trueloop: out of memory")]
    return said[0].removeprefix("trueloop: ") if said else f"exit code {outcome.code}: {outcome.said[-300:]}"


def compare(folder: Path, blocks: int, limit: int) -> None:
    """`limit`: MB."""
    (folder / RECIPE_FILE).write_text(RECIPE.format(blocks=blocks), encoding="utf-8")
    print(f"{blocks * BLOCK_MB:.0f} MB of weights, {RANKS} processes, limit of each: {limit:,} MB of RLIMIT_DATA\n")
    print("| parallel | limit | peak of rank 0 | of rank 1 | end |\n|---|---|---|---|---|")
    found: dict[tuple[str, bool], Outcome] = {}
    for limited in (False, True):
        for way in ("ddp", "fsdp"):
            found[way, limited] = outcome = trained(folder, way, limit * 1_000_000 if limited else None)
            peaks = " | ".join(f"{peak / 1e6:,.0f} MB" for peak in outcome.peaks)
            within = f"{limit:,} MB" if limited else "none"
            print(f"| {way} | {within} | {peaks} | {ended(outcome)} |", flush=True)
    free, held = found["fsdp", False], found["fsdp", True]
    same = bool(free.losses) and free.losses == held.losses
    print(f"\nlosses of fsdp within the limit: {'bit-identical to' if same else 'DIFFERENT from'} those without it")
    largest = max(abs(a - b) / abs(b) for a, b in zip(free.losses, found["ddp", False].losses, strict=True))
    print(f"losses of fsdp and of ddp without a limit differ by at most {largest:.1e} of their value")
    if found["ddp", True].finished or not held.finished or not same:
        raise SystemExit("This limit does not separate the two.")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limit", type=int, default=LIMIT, help="MB of each process")
    parser.add_argument("--blocks", type=int, default=BLOCKS, help="16.8 MB of weights each")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        compare(Path(place), asked.blocks, asked.limit)
