"""A series whose rows are sorted by their dates or numbers as text: 1.10.2021 before 1.2.2021, day_10 before day_2.

The order is known by its letters; that it is not that of the series is known from another column: its values follow
from those before them far better in the order of the values.
"""

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple

import numpy
from numpy.typing import NDArray

from trueloop.measure.alignments import natural_key
from trueloop.measure.tables import Table, Values

__all__ = ["TextOrder", "text_order"]

LEAST: Final = 100  # rows
MOST_ROWS: Final = 20_000
MOST_COLUMNS: Final = 12
FALLS: Final = 0.01  # of the rows are before the one above them, and at least as many as:
LEAST_FALLS: Final = 4
LAGS: Final = 8
FOLLOWS: Final = 0.5  # of the variance of a series that the values before it give
WORSE: Final = 2.0  # times the rest of the variance is left over in the order of the file
RIDGE: Final = 1e-3
LAST_DAY: Final = 31
LAST_MONTH: Final = 12

Floats = NDArray[numpy.float64]
_DAY: Final = r"(\d{1,2})[./-](\d{1,2})[./-](\d{4}|\d{2})(.*)"
_YEAR: Final = r"(\d{4})[./-](\d{1,2})[./-](\d{1,2})(.*)"


class TextOrder(NamedTuple):
    column: str  # by whose letters the rows are sorted
    first: str  # two rows in the wrong order
    second: str
    series: str
    here: float  # share of its variance that the values before it give, in the order of the file
    sorted: float  # in the order of the values


def text_order(table: Table) -> TextOrder | None:
    """Of a table of one series: each key comes once."""
    if not LEAST <= table.rows <= MOST_ROWS or not table.complete or table.lines:
        return None
    for column in table.columns:
        cells = _cells(column)
        if cells is None or any(one > other for one, other in pairwise(cells)):
            continue
        keys = _values(cells)
        if len(set(cells)) < len(cells) or keys is None:
            continue
        falls = [row for row, (one, other) in enumerate(pairwise(keys)) if one > other]
        if len(falls) < max(LEAST_FALLS, FALLS * len(cells)):
            continue
        order = numpy.array(sorted(range(len(keys)), key=lambda row: keys[row]))
        found = _series(table, column.name, order)
        if found is not None:
            return TextOrder(column.name, cells[falls[0]], cells[falls[0] + 1], *found)
    return None


def _cells(column: Values) -> list[str] | None:
    if column.kind == "digest":
        return None
    if column.words is not None or column.spelled is not None:
        return column.words or column.spelled
    values = column.numbers
    if values is None or not numpy.isfinite(values).all() or bool((values != numpy.round(values)).any()):
        return None
    return [f"{value:.0f}" for value in values]


def _values(cells: list[str]) -> Sequence[tuple[object, ...]] | None:
    """What the cells mean: days, or numbers in names that differ in nothing else."""
    parts = [re.fullmatch(_DAY, cell) or re.fullmatch(_YEAR, cell) for cell in cells]
    if not all(parts):
        same = len({re.sub(r"\d+", "#", cell) for cell in cells}) == 1
        return [natural_key(cell) for cell in cells] if same else None
    numbers = [(int(part[1]), int(part[2]), int(part[3]), part[4]) for part in parts if part is not None]
    if all(first > LAST_DAY for first, *_ in numbers):
        return numbers
    if any(second > LAST_MONTH for _, second, *_ in numbers):
        return [(year, month, day, rest) for month, day, year, rest in numbers]
    return [(year, month, day, rest) for day, month, year, rest in numbers]


def _series(table: Table, key: str, order: NDArray[numpy.int64]) -> tuple[str, float, float] | None:
    """The column that follows best from its values before, in the order of the values, and far worse as it is."""
    best = None
    for column in table.columns[:MOST_COLUMNS]:
        values = column.numbers
        if column.name == key or values is None or not numpy.isfinite(values).all() or not values.std():
            continue
        here, moved = _follows(values), _follows(values[order])
        if moved >= FOLLOWS and 1 - here >= WORSE * (1 - moved) and (best is None or moved > best[2]):
            best = (column.name, here, moved)
    return best


def _follows(values: Floats) -> float:
    """Share of the variance of the second half that a linear fit to the first half gives, from the values before."""
    windows = numpy.lib.stride_tricks.sliding_window_view((values - values.mean()) / values.std(), LAGS + 1)
    x, y = windows[:, :-1], windows[:, -1]
    half = len(x) // 2
    squares = x[:half].T @ x[:half] + RIDGE * half * numpy.eye(LAGS)
    errors = y[half:] - x[half:] @ numpy.linalg.solve(squares, x[:half].T @ y[:half])
    spread = float(y[half:].var())
    return max(0.0, 1 - float((errors**2).mean()) / spread) if spread else 0.0
