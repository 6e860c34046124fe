"""Runs an artifact that was just written in a subprocess, independent of the process that exported it:

    python -m trueloop.export.subprocess_runner FOLDER EXCHANGE DEVICE

EXCHANGE/inputs.npz     "BATCH/INPUT": the arrays of each batch
         outputs.npz    the same for the outputs
         failure.json   instead, if a batch could not be run: which one, and why
"""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import numpy as np

from trueloop.errors import MissingExtra, TrueloopError
from trueloop.export.exporter import Array
from trueloop.trust.made_here import TRUST
from trueloop.usercode.child_python import child_python

__all__ = ["RuntimeFailure", "run_in_subprocess"]

PATIENCE: Final = 3600.0  # Timeout in seconds
QUOTED: Final = 600  # Characters of its error output that are quoted


class RuntimeFailure(Exception):
    """The runtime could not run a batch. `batch`: its index; -1: it could not start."""

    def __init__(self, batch: int, reason: str) -> None:
        super().__init__(reason)
        self.batch = batch


def run_in_subprocess(folder: Path, batches: Sequence[Sequence[Array]], device: str) -> list[list[Array]]:
    """The outputs of all batches. Raises RuntimeFailure or MissingExtra."""
    with TemporaryDirectory(prefix="trueloop-export-") as scratch:
        exchange = Path(scratch)
        _save(exchange / "inputs.npz", batches)
        command = child_python("-m", __name__, str(folder), str(exchange), device)
        try:
            own = {**os.environ, TRUST: "1"}  # whoever calls this has just written it, also without a key to stamp it
            done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=PATIENCE, env=own)
        except subprocess.TimeoutExpired:
            raise RuntimeFailure(-1, f"no answer after {PATIENCE / 60:.0f} minutes") from None
        if (exchange / "failure.json").is_file():
            failure = json.loads((exchange / "failure.json").read_text(encoding="utf-8"))
            if failure["missing"]:
                raise MissingExtra(failure["reason"])
            raise RuntimeFailure(failure["batch"], failure["reason"])
        if done.returncode or not (exchange / "outputs.npz").is_file():
            code = done.returncode
            ended = f"killed by signal {-code}" if code < 0 else f"exit code {code}"
            raise RuntimeFailure(-1, f"{ended}. {done.stderr.strip()[-QUOTED:]}".strip())
        return _load(exchange / "outputs.npz")


def _save(file: Path, batches: Sequence[Sequence[Array]]) -> None:
    pairs = ((at, place, array) for at, arrays in enumerate(batches) for place, array in enumerate(arrays))
    named = {f"{at:06d}/{place:03d}": array for at, place, array in pairs}
    with file.open("wb") as out:
        np.savez(out, **named)  # type: ignore[arg-type]


def _load(file: Path) -> list[list[Array]]:
    batches: list[list[Array]] = []
    with np.load(file, allow_pickle=False) as saved:
        for name in sorted(saved.files):
            number = int(name.partition("/")[0])
            while len(batches) <= number:
                batches.append([])
            batches[number].append(saved[name])
    return batches


def _run(folder: Path, exchange: Path, device: str) -> None:
    from trueloop.export.catalogue import runner_of
    from trueloop.export.folder import read_artifact

    number = -1
    try:
        runner = runner_of(read_artifact(folder), device)
        batches = _load(exchange / "inputs.npz")
        outputs = []
        for number in range(len(batches)):
            outputs.append(runner.run(batches[number]))
    except Exception as error:  # noqa: BLE001 - any error of a runtime is the result
        own = isinstance(error, TrueloopError)
        reason = str(error) if own else f"{type(error).__name__}: {str(error).strip()[:QUOTED]}"
        failure = {"batch": number, "reason": reason, "missing": isinstance(error, MissingExtra)}
        (exchange / "failure.json").write_text(json.dumps(failure), encoding="utf-8")
        return
    _save(exchange / "outputs.npz", outputs)


if __name__ == "__main__":
    _run(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
