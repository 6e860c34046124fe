"""Columns that are computed exactly from the rows around them: moving averages, sums, differences, shifts. In one file
from rows up to the present one, in another file from later rows too; or, in a forecast, from what is to be forecast."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Final, NamedTuple

import numpy
from numpy.typing import NDArray

from trueloop.measure.tables import Table, Values

__all__ = ["Future", "LookAhead", "future_in_columns", "look_ahead"]

FARTHEST: Final = 24  # rows before and after
LEAST: Final = 4  # times as many rows as neighbors that a row is explained by
MOST_ROWS: Final = 900
MOST_COLUMNS: Final = 16
MOST_GROUPS: Final = 24
NEAREST: Final = 3  # rows before and after, at least
ROUNDING: Final = 1e-9
DISTINCT: Final = 30  # values of a measured quantity
INEXACT: Final = 1e-3  # of the variance, at most, is not explained: the column is computed from these rows
STEADY: Final = 5.0  # times the least that is left: rows after the last one that it needs change nothing more
ABRUPT: Final = 50.0  # times as much is left without that row: of a smooth series, each row adds a little

Floats = NDArray[numpy.float64]
Rows = NDArray[numpy.int64]


class LookAhead(NamedTuple):
    """The last row of the source that a column is computed from, in each of two files: 1 is the next row."""

    column: str
    source: str
    last: tuple[int, int]
    group: str  # column whose values tell the series apart; "" if a file is one series


class Future(NamedTuple):
    """A column of a forecast's inputs that is computed from its target."""

    column: int
    last: int  # the last row whose target it is computed from: 0 is its own
    known: int  # the last row whose target another column simply is: before its own
    rows: int


def future_in_columns(rows: Floats, targets: Floats, places: Rows) -> Future | None:
    """Of a table whose rows follow one another in time where `places` do. Earlier targets among the inputs show that
    it is a forecast, and what is known at a row."""
    columns = numpy.concatenate([targets.reshape(-1, 1), rows.reshape(len(rows), -1)], 1)
    columns = columns[:, [0, *(1 + numpy.flatnonzero(_distinct(columns[:, 1:]) >= DISTINCT))]]
    numbers = numpy.flatnonzero(_distinct(rows.reshape(len(rows), -1)) >= DISTINCT)
    if columns.shape[1] < 3 or _distinct(targets.reshape(-1, 1))[0] < DISTINCT:
        return None
    series = numpy.split(columns, numpy.flatnonzero(numpy.diff(places) != 1) + 1)
    reach = min(FARTHEST, max(map(len, series)) // 4)
    around = _neighborhoods(series, reach)
    if around is None:
        return None
    lasts = _last_rows(around, 0)
    known = [last for column, last in lasts.items() if last < 0 and _is_copy(around, column, last)]
    future = {column: last for column, last in lasts.items() if last >= 0 and not _is_copy(around, column, last)}
    if not known or not future:
        return None
    column = max(future, key=lambda each: future[each])
    return Future(int(numbers[column - 1]), future[column], max(known), len(around.present))


def _distinct(columns: Floats) -> Rows:
    ordered = numpy.sort(columns, 0)
    return numpy.asarray(1 + (numpy.diff(ordered, axis=0) > 0).sum(0), dtype=numpy.int64)


def _is_copy(rows: _Neighborhoods, column: int, last: int) -> bool:
    """The column is the target of that row itself, up to a factor and an offset."""
    one, other = rows.present[:, column], rows.around[:, rows.reach + last, 0]
    return abs(float(numpy.corrcoef(one, other)[0, 1])) ** 2 > 1 - INEXACT


def look_ahead(first: Table, second: Table, rows: Rows | None = None, others: Rows | None = None) -> list[LookAhead]:
    """Columns that two tables, or two parts of one, compute from different rows of one and the same column."""
    names = [name for name in first.names if _is_measured(first, name, rows) and _is_measured(second, name, others)]
    names = names[:MOST_COLUMNS]
    if len(names) < 2:
        return []
    for group in ("", *_group_columns(first, second)):
        sides = [_series(*each, group, names) for each in ((first, rows), (second, others))]
        reach = min(FARTHEST, *(max(map(len, side), default=0) // 4 for side in sides))
        here, there = (_neighborhoods(side, reach) for side in sides)
        if here is None or there is None:
            continue
        found = []
        for index, source in enumerate(names):
            lasts = [_last_rows(each, index) for each in (here, there)]
            for position, column in enumerate(names):
                pair = (lasts[0].get(position), lasts[1].get(position))
                if pair[0] is not None and pair[1] is not None and pair[0] != pair[1] and max(pair[0], pair[1]) >= 0:
                    found.append(LookAhead(column, source, (pair[0], pair[1]), group))
        if found and not _reversed(first, second):
            return sorted(found, key=lambda each: -max(each.last))
    return []


def _is_measured(table: Table, name: str, rows: Rows | None) -> bool:
    if name not in table.names:
        return False
    values = table.column(name).numbers
    if values is None:
        return False
    values = (values if rows is None else values[rows])[:4000]
    values = values[numpy.isfinite(values)]
    return len(numpy.unique(values)) >= DISTINCT and not bool((numpy.diff(values) >= 0).all())


def _reversed(first: Table, second: Table) -> bool:
    """Whether the rows of the two files run in opposite directions: later rows are then earlier ones."""
    for column in first.columns:
        ways = {_direction(column), _direction(second.column(column.name))} if column.name in second.names else set()
        if ways == {1, -1}:
            return True
    return False


def _direction(column: Values) -> int:
    cells = column.words if column.numbers is None else column.numbers.tolist()
    if not cells or cells[0] == cells[-1]:
        return 0
    pairs = list(pairwise(cells))
    return 1 if all(a <= b for a, b in pairs) else -1 if all(a >= b for a, b in pairs) else 0


def _group_columns(first: Table, second: Table) -> Iterator[str]:
    """Columns that name a few series in both tables: assets, stations."""
    for column in first.columns:
        if column.name in second.names and column.kind != "digest":
            counts = [_codes(table, column.name) for table in (first, second)]
            if all(codes is not None and 2 <= len(numpy.unique(codes)) <= len(codes) / 50 for codes in counts):
                yield column.name


def _codes(table: Table, name: str) -> NDArray[numpy.int64] | None:
    column = table.column(name)
    if column.words is not None:
        return numpy.asarray(numpy.unique(numpy.array(column.words), return_inverse=True)[1], dtype=numpy.int64)
    values = column.numbers
    if values is None or not numpy.isfinite(values).all() or not bool((values == numpy.round(values)).all()):
        return None
    return values.astype(numpy.int64)


class _Neighborhoods(NamedTuple):
    """For each of some rows: the present values of all columns, and their values from `-reach` to `reach` rows on."""

    reach: int
    present: Floats  # [rows, columns]
    around: Floats  # [rows, 2 * reach + 1, columns]


def _series(table: Table, rows: Rows | None, group: str, names: list[str]) -> list[Floats]:
    columns = [table.column(name).numbers for name in names]
    values = numpy.stack([column for column in columns if column is not None], 1)
    codes = _codes(table, group) if group else numpy.zeros(len(values), dtype=numpy.int64)
    if codes is None:
        return []
    if rows is not None:
        values, codes = values[rows], codes[rows]
    return [values[codes == code] for code in numpy.unique(codes)[:MOST_GROUPS]]


def _neighborhoods(series: list[Floats], reach: int) -> _Neighborhoods | None:
    width = 2 * reach + 1
    parts = [numpy.lib.stride_tricks.sliding_window_view(s, width, axis=0) for s in series if len(s) >= 1.5 * width]
    if reach < NEAREST or not parts:
        return None
    each = max(1, MOST_ROWS // len(parts))
    around = numpy.concatenate([part[:each].swapaxes(1, 2) for part in parts])
    around = around[numpy.isfinite(around).all((1, 2))]
    return _Neighborhoods(reach, around[:, reach], around) if len(around) >= LEAST * width else None


def _last_rows(rows: _Neighborhoods, index: int) -> dict[int, int]:
    """For each column that the rows around it of column `index` give exactly: the last of these rows."""
    around = rows.around[:, :, index] - rows.around[:, :, index].mean(0)
    wanted = rows.present - rows.present.mean(0)
    total = numpy.maximum((wanted**2).sum(0), 1e-300)
    # Gram-Schmidt over the rows in order of time: what is left after each further row.
    q, _ = numpy.linalg.qr(around)
    left = 1 - numpy.cumsum((q.T @ wanted) ** 2, 0) / total
    found = {}
    for column in numpy.flatnonzero(left[-1] < INEXACT).tolist():
        enough = max(STEADY * float(left[-1, column]), ROUNDING)
        last = int(numpy.argmax(left[:, column] <= enough))
        if column != index and 2 <= last < 2 * rows.reach and left[last - 1, column] > ABRUPT * enough:
            found[column] = last - rows.reach
    return found
