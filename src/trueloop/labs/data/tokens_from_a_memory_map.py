"""tokens-from-a-memory-map: How does one train on more tokens than there is memory?

The tokens of a corpus are one flat file of 16-bit numbers. A memory map makes it look like an array: nothing is read
until it is used, the operating system keeps what is used often, and several processes share it.

You will compare it with reading the file, and see two traps: a copy of everything by one wrong call, and a map that
travels to workers as a copy.
"""

import pickle
import tempfile
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trueloop.labs.lab import Lab, Page

__all__ = ["LAB"]

TOKENS, CONTEXT = 16_000_000, 256


class Windows:
    """Random windows of tokens, and the same windows one token later. Opens the file where it is used."""

    def __init__(self, file: Path) -> None:
        self.file, self.tokens = file, None

    def batch(self, size: int, draws: torch.Generator) -> tuple[Tensor, Tensor]:
        if self.tokens is None:
            self.tokens = np.memmap(self.file, dtype=np.uint16, mode="r")  # type: ignore[assignment]
        tokens: Any = self.tokens
        starts = torch.randint(len(tokens) - CONTEXT, (size,), generator=draws).tolist()
        rows = np.stack([tokens[at : at + CONTEXT + 1].astype(np.int64) for at in starts])
        both = torch.from_numpy(rows)
        return both[:, :-1], both[:, 1:]

    def __getstate__(self) -> dict[str, Any]:
        return {"file": self.file, "tokens": None}  # a worker opens its own map


def allocated(function: Callable[[], Any]) -> float:
    """Megabytes at the peak of a call, as Python and numpy allocate them."""
    tracemalloc.start()
    function()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 1e6


@dataclass(frozen=True)
class Measured:
    file: float  # megabytes
    peaks: dict[str, float]
    equal: bool
    shifted: bool
    pickled: dict[str, float]  # megabytes


def measure() -> Measured:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "tokens.bin"
        np.tile(np.arange(50_000, dtype=np.uint16), TOKENS // 50_000).tofile(file)
        windows = Windows(file)
        draws = torch.Generator().manual_seed(0)
        peaks = {
            "np.fromfile(file)": allocated(lambda: np.fromfile(file, dtype=np.uint16)),
            "np.memmap(file)": allocated(lambda: np.memmap(file, dtype=np.uint16, mode="r")),
            "a batch of 32 windows of the map": allocated(lambda: windows.batch(32, draws)),
            "np.memmap(file).astype(np.int64)": allocated(
                lambda: np.memmap(file, dtype=np.uint16, mode="r").astype(np.int64)
            ),
        }
        inputs, targets = windows.batch(32, torch.Generator().manual_seed(1))
        starts = torch.randint(TOKENS - CONTEXT, (32,), generator=torch.Generator().manual_seed(1))
        loaded = np.fromfile(file, dtype=np.uint16).astype(np.int64)
        expected = torch.from_numpy(loaded)[starts[:, None] + torch.arange(CONTEXT)]
        pickled = {
            "the map": len(pickle.dumps(np.memmap(file, dtype=np.uint16, mode="r"))) / 1e6,
            "Windows": len(pickle.dumps(windows)) / 1e6,
        }
        windows.tokens = None  # closes the map: some systems cannot delete a mapped file
    return Measured(
        TOKENS * 2 / 1e6, peaks, torch.equal(inputs, expected), torch.equal(inputs[:, 1:], targets[:, :-1]), pickled
    )


def answer(page: Page, measured: Measured) -> None:
    page.table(f"A file of {measured.file:.0f} MB", ("call", "megabytes allocated"), measured.peaks.items())
    page.table("Sent to a worker", ("object", "megabytes"), measured.pickled.items())
    peaks, file = measured.peaks, measured.file
    page.says("Reading the file allocates all of it.", peaks["np.fromfile(file)"] > 0.99 * file)
    page.says("Opening a map allocates almost nothing.", peaks["np.memmap(file)"] < 1)
    small = peaks["a batch of 32 windows of the map"] < 2
    page.says("A batch allocates its own windows only.", small and measured.equal)
    page.says("Targets are inputs one token later, from one window of context + 1.", measured.shifted)
    wide = peaks["np.memmap(file).astype(np.int64)"] > 3.9 * file
    page.says("`astype` on the map copies everything, four times as wide: convert the window.", wide)
    sent = measured.pickled["the map"] > 0.99 * file and measured.pickled["Windows"] < 0.01
    page.says("A pickled map is a copy of the file: send the path to workers, and open it there.", sent)


LAB = Lab(code=(Windows, allocated), measure=measure, answer=answer)
