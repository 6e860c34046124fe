"""`metrics.jsonl` of a checked script: the rows of `track/metrics.py`, in few bytes.

    {"kind": "train","step":50,"epoch":2.6316,"loss":0.8911734,"lr":0.003,"seconds":0.41}

A loss has nine digits, which tell it from every other 32-bit number, a learning rate six. Each step has a row as long
as the rows take `BYTES_PER_STEP` on average; where they are longer (many learning rates), some rows cover several
steps: a loss is then their mean. The first process of a run that has a row to write creates the file; others write
none.
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

BYTES_PER_STEP: Final = 80
AT_FIRST: Final = 16_384  # bytes for the first rows, whatever their length
_FRAME: Final = 28  # bytes of a row without its values, on average
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
            return [_line(self._with_best(row))]
        self._credit += BYTES_PER_STEP * max(0, row.step - self._step)
        self._step = row.step
        self._merged.append(row)
        # By names, not by the digits of this run: two runs of a script have rows for the same steps.
        size = _FRAME + len("".join(row.values)) + _VALUE * len(row.values)
        if size > self._credit:
            return []
        self._credit -= size
        rows, self._merged = self._merged, []
        return [_line(_mean(rows))]

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
    return f'{{"kind": "{row.kind}","step":{row.step},"epoch":{row.epoch:.6g}{best}{values}}}\n'


@lru_cache(maxsize=256)
def _label(name: str) -> tuple[str, str]:
    """A name as it stands before its value, and the digits of the value. Names come from the script."""
    short = name.startswith("lr") or name == "gradient_norm"
    return f",{json.dumps(name)}:", ".6g" if short else ".9g"
