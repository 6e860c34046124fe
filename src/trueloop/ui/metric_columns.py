"""The rows of `metrics.jsonl` as columns of numbers, read by offset: a call reads what was appended since the last one.

A row that repeats a step takes the place of the older rows from that step on, as in `trueloop.track.metrics`. Lines
that are damaged, too long or no rows are counted, never shown. A file that shrinks or is replaced is read again.
"""

from __future__ import annotations

import json
import math
import os
import threading
import time
from array import array
from bisect import bisect_left
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter, lt
from pathlib import Path
from typing import Any, Final

from trueloop.track.metrics import FILE
from trueloop.ui.bounded_files import open_inside, sampled_lines

__all__ = ["Column", "MetricColumns", "RowTable", "sampled"]

BLOCK: Final = 128 << 10
"""Bytes read at once: other requests are answered between two blocks."""
ALIKE: Final = 8  # Rows in a row with the same names, from which a column at a time is faster
LONGEST_LINE: Final = 1 << 20
"""Bytes of a row, at most: statistics of many layers take some 100 kB."""
MOST_COLUMNS: Final = 20_000
LONGEST_NAME: Final = 200
LARGEST_STEP: Final = 1 << 53
"""Above it, JavaScript and floats cannot count."""
_NOT_FINITE: Final = frozenset({"nan", "inf", "-inf"})
_NOT_VALUES: Final = frozenset({"kind", "step", "best"})


@dataclass(slots=True)
class Column:
    """Values of one name; `rows` has the number of the row of each."""

    rows: array[int] = field(default_factory=lambda: array("I"))
    values: array[float] = field(default_factory=lambda: array("d"))


@dataclass(slots=True)
class RowTable:
    """The rows of one kind."""

    steps: array[int] = field(default_factory=lambda: array("q"))
    columns: dict[str, Column] = field(default_factory=dict)

    def drop_from(self, step: int) -> None:
        keep = bisect_left(self.steps, step)
        del self.steps[keep:]
        for column in self.columns.values():
            cut = bisect_left(column.rows, keep)
            del column.rows[cut:], column.values[cut:]

    def steps_of(self, column: Column) -> array[int]:
        if len(column.rows) == len(self.steps):
            return self.steps
        return array("q", (self.steps[row] for row in column.rows))


class MetricColumns:
    """Of one run. `tables`: kind -> its rows. Guarded by `lock`, because requests come from several threads."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lock = threading.Lock()
        self._clear()

    def _clear(self) -> None:
        self.tables: dict[str, RowTable] = {}
        self.skipped = 0  # Lines that are no rows
        self.version = 0  # Grows with every row
        self._offset, self._inode, self._rest, self._in_long_line = 0, 0, b"", False
        self._columns = 0

    @property
    def offset(self) -> int:
        return self._offset

    def refresh(self, pause: float = 0.0) -> None:
        """Read what was appended; with `pause`, so many seconds between two blocks are left to other threads."""
        file = open_inside(self.folder, FILE)
        if file is None:
            self._clear()
            return
        with file:
            about = os.fstat(file.fileno())
            if about.st_ino != self._inode or about.st_size < self._offset:
                self._clear()
                self._inode = about.st_ino
            file.seek(self._offset)
            while block := file.read(BLOCK):
                self._offset += len(block)
                self._take(block)
                if pause:
                    time.sleep(pause)

    def _take(self, block: bytes) -> None:
        *lines, rest = (self._rest + block).split(b"\n")
        if self._in_long_line and lines:
            lines, self._in_long_line = lines[1:], False
        if len(rest) > LONGEST_LINE or self._in_long_line:
            self.skipped += not self._in_long_line
            rest, self._in_long_line = b"", True
        self._rest = rest
        self.add(lines)

    def add(self, lines: list[bytes]) -> None:
        """Complete lines."""
        short = [line for line in lines if line and len(line) <= LONGEST_LINE]
        self.skipped += sum(len(line) > LONGEST_LINE for line in lines)
        try:
            # As one array: three times as fast as line by line.
            rows = json.loads(b"[" + b",".join(short) + b"]")
            if len(rows) != len(short):
                raise ValueError("a line holds more than one value")
        except (ValueError, RecursionError):
            rows = [_parsed(line) for line in short]
        self._append(rows)

    def _append(self, rows: list[Any]) -> None:
        for (kind, _), alike in groupby(rows, _shape):
            group = list(alike)
            if kind and self._append_alike(kind, group):
                continue
            for row in group:
                if type(row) is not dict or not self._append_row(row):
                    self.skipped += 1

    def _append_alike(self, kind: str, rows: list[dict[str, Any]]) -> bool:
        """Rows with the same names, a column at a time, which is faster. False: they are not, and none was added."""
        table = self.tables.get(kind)
        if table is None or len(rows) < ALIKE:
            return False
        wanted = [name for name in rows[0] if name not in _NOT_VALUES]
        if any(name not in table.columns for name in wanted):
            return False
        try:
            steps, *columns = zip(*map(itemgetter("step", *wanted), rows), strict=True)
            rising = all(map(lt, steps, steps[1:])) and steps[0] > (table.steps[-1] if table.steps else -1)
            if not rising or set(map(type, steps)) != {int} or steps[-1] >= LARGEST_STEP:
                return False
            values = [array("d", column) for column in columns]
        except (KeyError, TypeError, OverflowError):
            return False
        first = len(table.steps)
        table.steps.extend(steps)
        numbers = array("I", range(first, first + len(rows)))
        for name, each in zip(wanted, values, strict=True):
            table.columns[name].rows.extend(numbers)
            table.columns[name].values.extend(each)
        self.version += len(rows)
        return True

    def _append_row(self, row: dict[str, Any]) -> bool:
        step, kind = row.get("step"), row.get("kind", "train")
        if type(step) is not int or not 0 <= step < LARGEST_STEP or type(kind) is not str:
            return False
        table = self.tables.get(kind)
        if table is None:
            if len(kind) > LONGEST_NAME or len(self.tables) > 100:
                return False
            table = self.tables[kind] = RowTable()
        if table.steps and step <= table.steps[-1]:
            table.drop_from(step)
        number = len(table.steps)
        table.steps.append(step)
        columns = table.columns
        for name, value in row.items():
            if name in _NOT_VALUES:
                continue
            if type(value) is not float:
                value = _number(value)
                if value is None:
                    continue
            column = columns.get(name)
            if column is None:
                if self._columns >= MOST_COLUMNS or len(name) > LONGEST_NAME:
                    continue
                self._columns += 1
                column = columns[name] = Column()
            column.rows.append(number)
            column.values.append(value)
        self.version += 1
        return True

    # -- questions --

    def column(self, kind: str, name: str) -> tuple[array[int], array[float]] | None:
        """(steps, values), or None."""
        table = self.tables.get(kind)
        column = table.columns.get(name) if table else None
        return (table.steps_of(column), column.values) if table and column else None

    def at_rows(self, kind: str, name: str, other: str) -> array[float] | None:
        """Values of another column in the rows that have this one, for instance the seconds of each loss."""
        table = self.tables.get(kind)
        first = table.columns.get(name) if table else None
        second = table.columns.get(other) if table else None
        if first is None or second is None:
            return None
        if len(first.rows) == len(second.rows):
            return second.values
        known = dict(zip(second.rows, second.values, strict=True))
        return array("d", (known.get(row, math.nan) for row in first.rows))

    def last(self, kind: str, name: str) -> float | None:
        found = self.column(kind, name)
        return found[1][-1] if found and found[1] else None


def _shape(row: Any) -> tuple[str, int]:
    """(kind, number of names); rows next to each other with the same shape most likely have the same names."""
    if type(row) is not dict:
        return "", 0
    kind = row.get("kind", "train")
    return (kind, len(row)) if type(kind) is str else ("", 0)


def _parsed(line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _number(value: Any) -> float | None:
    """NaN and Inf are written as strings."""
    if type(value) is int:
        return float(value) if abs(value) < LARGEST_STEP else None
    return float(value) if type(value) is str and value in _NOT_FINITE else None


def sampled(folder: Path, blocks: int, size: int) -> MetricColumns:
    """Columns of some of the rows."""
    columns = MetricColumns(folder)
    columns.add(sampled_lines(folder, FILE, blocks, size))
    return columns
