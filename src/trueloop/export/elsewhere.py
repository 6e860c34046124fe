"""Runs an artifact in a process of its own, so that nothing of the process that made it can help it:

    python -m trueloop.export.elsewhere FOLDER EXCHANGE DEVICE

EXCHANGE/inputs.npz     "BATCH/INPUT": the arrays of each batch
         outputs.npz    the same of the answers
         failure.json   instead, if a batch could not be run: which, and why
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import numpy as np

from trueloop.errors import MissingExtra, TrueloopError
from trueloop.export.exporter import Array

__all__ = ["RuntimeFailure", "run_elsewhere"]

PATIENCE: Final = 3600.0
"""Seconds after which a runtime hangs."""
SPOKEN: Final = 600
"""Letters of what it said that are handed on."""


class RuntimeFailure(Exception):
    """The runtime could not run a batch. `batch`: its number; -1: it could not even begin."""

    def __init__(self, batch: int, reason: str) -> None:
        super().__init__(reason)
        self.batch = batch


def run_elsewhere(folder: Path, batches: Sequence[Sequence[Array]], device: str) -> list[list[Array]]:
    """The answers to all batches. Raises RuntimeFailure, or MissingExtra."""
    with TemporaryDirectory(prefix="trueloop-export-") as scratch:
        exchange = Path(scratch)
        _put(exchange / "inputs.npz", batches)
        command = [sys.executable, "-m", __name__, str(folder), str(exchange), device]
        try:
            done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            raise RuntimeFailure(-1, f"it has not answered for {PATIENCE / 60:.0f} minutes") from None
        if (exchange / "failure.json").is_file():
            told = json.loads((exchange / "failure.json").read_text(encoding="utf-8"))
            raise MissingExtra(told["reason"]) if told["missing"] else RuntimeFailure(told["batch"], told["reason"])
        if done.returncode or not (exchange / "outputs.npz").is_file():
            ended = (
                f"signal {-done.returncode} ended it"
                if done.returncode < 0
                else f"it ended with code {done.returncode}"
            )
            raise RuntimeFailure(-1, f"{ended}. {done.stderr.strip()[-SPOKEN:]}".strip())
        return _taken(exchange / "outputs.npz")


def _put(file: Path, batches: Sequence[Sequence[Array]]) -> None:
    named = {
        f"{number:06d}/{place:03d}": array
        for number, arrays in enumerate(batches)
        for place, array in enumerate(arrays)
    }
    with file.open("wb") as out:
        np.savez(out, **named)  # type: ignore[arg-type]


def _taken(file: Path) -> list[list[Array]]:
    batches: list[list[Array]] = []
    with np.load(file, allow_pickle=False) as held:
        for name in sorted(held.files):
            number = int(name.partition("/")[0])
            while len(batches) <= number:
                batches.append([])
            batches[number].append(held[name])
    return batches


def _run(folder: Path, exchange: Path, device: str) -> None:
    from trueloop.export.catalogue import runner_of
    from trueloop.export.folder import read_artifact

    number = -1
    try:
        runner = runner_of(read_artifact(folder), device)
        batches = _taken(exchange / "inputs.npz")
        answers = []
        for number in range(len(batches)):
            answers.append(runner.run(batches[number]))
    except Exception as error:  # noqa: BLE001 - whatever a runtime raises is the answer to "does it run?"
        reason = (
            str(error) if isinstance(error, TrueloopError) else f"{type(error).__name__}: {str(error).strip()[:SPOKEN]}"
        )
        told = {"batch": number, "reason": reason, "missing": isinstance(error, MissingExtra)}
        (exchange / "failure.json").write_text(json.dumps(told), encoding="utf-8")
        return
    _put(exchange / "outputs.npz", answers)


if __name__ == "__main__":
    _run(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
