"""`metrics.jsonl` in the run's folder: one row per line, read by `runs`, `compare`, the curves and other tools.

    {"kind": "train", "step": 50, "epoch": 2.6316, "loss": 0.8912, "lr": 0.003, ..., "seconds": 0.41}
    {"kind": "valid", "step": 57, "epoch": 3.0, "best": true, "accuracy": 0.96, "loss": 0.141, "seconds": 0.47}

`seconds` is the training time without breaks between a stop and a resume. NaN and Inf are written as strings.
"""

import json
import math
import time
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO, Final, final

from trueloop.errors import CannotSave, NotARun
from trueloop.hook import Ending, Hook, Row, Start
from trueloop.trust.files import parse_json, read_regular

__all__ = ["FILE", "MetricsFile", "current_rows", "last_row", "read_rows", "row_of"]

FILE: Final = "metrics.jsonl"
_TAIL: Final = 1 << 20
"""Bytes at the end of a file that are searched for its last row: statistics of many layers take some 100 kB."""


@final
class MetricsFile(Hook):
    """Appends; a resumed run first drops the rows that it will write again. Raises CannotSave."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE
        self._file: BinaryIO | None = None
        self._begun = time.monotonic()

    def started(self, start: Start) -> None:
        # A test row has the step of the best weights, and a resumed run tests again.
        kept = (
            [row for row in read_rows(self.path.parent) if row.step <= start.from_step and row.kind != "test"]
            if start.from_step
            else []
        )
        seconds = kept[-1].values.get("seconds", 0.0) if kept else 0.0
        self._begun = time.monotonic() - seconds
        aside = self.path.with_suffix(".writing")
        try:
            # Write aside, then rename: a kill in between must not lose the rows of hours.
            aside.write_bytes(b"".join(_line(row) for row in kept))
            aside.replace(self.path)
            # Unbuffered: a failed write (a full disk) is not tried again when the file is closed.
            self._file = self.path.open("ab", buffering=0)
        except OSError as error:
            raise self._refusal(error) from None

    def logged(self, row: Row) -> None:
        if self._file is None:
            return
        seconds = round(time.monotonic() - self._begun, 3)
        line = memoryview(_line(replace(row, values={**row.values, "seconds": seconds})))
        try:
            while line:
                line = line[self._file.write(line) :]
        except OSError as error:
            raise self._refusal(error) from None

    def ended(self, ending: Ending) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _refusal(self, error: OSError) -> CannotSave:
        return CannotSave(f"{self.path} could not be written ({error.strerror or error}).")


def _line(row: Row) -> bytes:
    best = {"best": True} if row.best else {}
    fields = {"kind": row.kind, "step": row.step, "epoch": round(row.epoch, 4), **best, **_finite(row)}
    return f"{json.dumps(fields)}\n".encode()


def _finite(row: Row) -> dict[str, Any]:
    """JSON has no NaN and no Inf: they are written as strings."""
    return {name: value if math.isfinite(value) else str(value) for name, value in row.values.items()}


def row_of(data: Any) -> Row:
    """The row of a parsed line. Raises ValueError, KeyError or TypeError."""
    fields = dict(data)
    kind, step, epoch, best = fields.pop("kind"), fields.pop("step"), fields.pop("epoch"), fields.pop("best", False)
    return Row(kind, int(step), float(epoch), {name: float(value) for name, value in fields.items()}, bool(best))


def read_rows(folder: Path, kinds: Collection[str] = ()) -> Iterator[Row]:
    """All rows, or only some kinds. An incomplete last line is left out; damage elsewhere raises NotARun."""
    path = folder / FILE
    wanted = tuple(f'{{"kind": "{kind}"'.encode() for kind in kinds)
    try:
        lines = read_regular(path).splitlines(keepends=True)
    except FileNotFoundError:
        return
    except OSError as error:
        raise NotARun(f"{path} cannot be read ({error.strerror}).") from None
    for number, line in enumerate(lines, 1):
        if wanted and not line.startswith(wanted):
            continue
        try:
            row = row_of(parse_json(line))
        except (ValueError, KeyError, TypeError, OverflowError) as error:
            if number == len(lines):
                return
            raise NotARun(f"{path}:{number} is damaged ({error}). Remove that line to read the others.") from None
        yield row


def last_row(folder: Path) -> Row | None:
    """The newest complete row, without reading the others."""
    try:
        if not (folder / FILE).is_file():  # a pipe would be waited for
            return None
        with (folder / FILE).open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - _TAIL))
            lines = file.read().splitlines()
    except OSError:
        return None
    for line in reversed(lines):
        try:
            row = row_of(parse_json(line))
        except (ValueError, KeyError, TypeError, OverflowError):
            continue
        if row.kind != "test":  # its step is that of the best weights, not of the run
            return row
    return None


def current_rows(rows: Iterator[Row]) -> list[Row]:
    """Without superseded rows: a run that returned to an earlier checkpoint logs some steps twice."""
    kept: dict[str, list[Row]] = {}
    for row in rows:
        same = kept.setdefault(row.kind, [])
        while same and same[-1].step >= row.step:
            same.pop()
        same.append(row)
    return sorted((row for same in kept.values() for row in same), key=lambda row: row.step)
