"""`metrics.jsonl` of a checked script: the rows of `track/metrics.py`, in few bytes.

    {"kind": "train","step":50,"epoch":2.6316,"loss":0.8911734,"lr":0.003,"seconds":0.41}

A loss has nine digits, which tell it from every other 32-bit number. After the first steps a learning rate stands in
one row of ten, and wherever it has changed by more than one percent. Each step has a row as long as all rows take
`BYTES_PER_STEP` on average; where they are longer (many values, many evaluations), some rows cover several steps: a
loss is then their mean. The first process of a run that has a row to write creates the file; others write none.
"""

import json
import math
import os
from functools import lru_cache
from pathlib import Path
from typing import Final, final

from trueloop.hook import Row
from trueloop.track.chosen_metric import chosen_metric, is_higher_better
from trueloop.track.metrics import FILE

__all__ = ["ThinMetrics"]

BYTES_PER_STEP: Final = 84
AT_FIRST: Final = 8_192  # bytes for the first rows, whatever their length
FIRST_STEPS: Final = 100  # with all their learning rates
RATE_EVERY: Final = 10  # rows from one learning rate to the next
RATE_CHANGE: Final = 0.01  # relative change that is written at once
_FRAME: Final = 44  # bytes of a row without its values, on average
_VALUE: Final = 13  # bytes of a value without its name


@final
class ThinMetrics:
    """Appends whole lines. A write that fails ends the file, and `failure` says why."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE
        self.failure = ""
        self.elsewhere = False  # Another process of the run writes the rows
        self._file: int | None = None
        self._credit = AT_FIRST
        self._step = 0
        self._merged: list[Row] = []
        self._rates: dict[str, tuple[float, int]] = {}  # The learning rate that was last written, and in which row
        self._rows = 0
        self._metric = ""
        self._best: float | None = None

    def add(self, rows: list[Row]) -> None:
        lines = "".join(line for row in rows for line in self._lines(row))
        if lines:
            self._append(lines.encode())

    def close(self) -> None:
        if self._merged:
            rows, self._merged = self._merged, []
            self._append(_line(_mean(rows)).encode())
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _lines(self, row: Row) -> list[str]:
        if row.kind != "train":
            self._credit -= _size(row)
            return [_line(self._with_best(row))]
        self._credit += BYTES_PER_STEP * max(0, row.step - self._step)
        self._step = row.step
        self._merged.append(row if row.step <= FIRST_STEPS else self._with_due_rates(row))
        mean = _mean(self._merged)
        size = _size(mean)
        if size > self._credit:
            return []
        self._credit -= size
        self._merged = []
        return [_line(mean)]

    def _with_due_rates(self, row: Row) -> Row:
        self._rows += 1
        kept: dict[str, float] = {}
        for name, value in row.values.items():
            if name.startswith("lr"):
                before, at = self._rates.get(name, (math.nan, 0))
                if abs(value - before) <= RATE_CHANGE * abs(before) and self._rows - at < RATE_EVERY:
                    continue
                self._rates[name] = (value, self._rows)
            kept[name] = value
        return Row(row.kind, row.step, row.epoch, kept)

    def _with_best(self, row: Row) -> Row:
        self._metric = self._metric or chosen_metric(row.values)
        value = row.values.get(self._metric)
        if row.kind != "valid" or value is None or not math.isfinite(value):
            return row
        better = self._best is None or ((value > self._best) is is_higher_better(self._metric) and value != self._best)
        self._best = value if better else self._best
        return Row(row.kind, row.step, row.epoch, row.values, better)

    def _append(self, data: bytes) -> None:
        if self.failure or self.elsewhere:
            return
        try:
            if self._file is None:
                self._file = os.open(
                    self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o644
                )
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(self._file, rest) :]
        except FileExistsError:
            self.elsewhere = True
        except OSError as error:
            self.failure = error.strerror or str(error)


def _size(row: Row) -> int:
    """By names, not by the digits of this run: two runs of a script have rows for the same steps."""
    return _FRAME + len("".join(row.values)) + _VALUE * (len(row.values) - 1)


def _mean(rows: list[Row]) -> Row:
    """One row for several steps: losses and the user's own values are means, learning rates the last ones."""
    last = rows[-1]
    if len(rows) == 1:
        return last
    values: dict[str, float] = {}
    for name in dict.fromkeys(name for row in rows for name in row.values):
        found = [row.values[name] for row in rows if name in row.values]
        values[name] = found[-1] if name == "seconds" or name.startswith("lr") else sum(found) / len(found)
    return Row(last.kind, last.step, last.epoch, {**values, "seconds": values.pop("seconds")})


def _line(row: Row) -> str:
    best = ',"best":true' if row.best else ""
    values = "".join(
        [
            f"{label}{value:{digits}}" if math.isfinite(value) else f'{label}"{value}"'  # JSON has no NaN and no Inf
            for (label, digits), value in zip(map(_label, row.values), row.values.values(), strict=True)
        ]
    )
    return f'{{"kind": "{row.kind}","step":{row.step},"epoch":{row.epoch:.5g}{best}{values}}}\n'


@lru_cache(maxsize=256)
def _label(name: str) -> tuple[str, str]:
    """A name as it stands before its value, and the digits of the value. Names come from the script."""
    short = name.startswith("lr") or name == "gradient_norm"
    return f",{json.dumps(name)}:", ".6g" if short else ".9g"
