"""Arrays in which a long stretch of rows was never written: it holds one value, and what belongs to it varies."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy
from numpy.typing import NDArray

from trueloop.measure.tables import Table

__all__ = ["EmptyRows", "empty_rows"]

LEAST_ROWS: Final = 64
NARROWEST: Final = 16  # numbers of a row: shorter rows are constant by nature
OFTEN: Final = 0.2  # of the rows
WRITTEN: Final = 8  # rows that are not constant
STRETCHES: Final = 8  # of empty rows: workers leave several; rows that are blank by nature are spread
LENGTH: Final = 8  # rows of a stretch, in the mean
MOST_VALUES: Final = 3.0  # rows for each value of a column of labels
ALL_ALIKE: Final = 0.9  # of the labels of empty rows


class EmptyRows(NamedTuple):
    array: str  # its name inside the file
    rows: int
    empty: int
    first: int  # row of the longest stretch
    value: float  # that they hold
    beside: str  # the file whose rows of these numbers vary


def empty_rows(table: Table, others: Sequence[Table]) -> EmptyRows | None:
    for name, array in table.arrays:
        empty = _empty(array)
        if empty is None:
            continue
        for other in (table, *others):
            if other.rows == table.rows and other.complete and _varies(other, name if other is table else None, empty):
                stretches = _stretches(empty)
                first = max(stretches, key=lambda pair: pair[1] - pair[0])[0]
                value = float(array[first].reshape(-1)[0])
                return EmptyRows(name, len(array), int(empty.sum()), first, value, other.path)
    return None


def _empty(array: NDArray[Any]) -> NDArray[numpy.bool_] | None:
    """Rows that hold one value throughout, the same in all of them; None if they are few, or spread."""
    if array.dtype.kind not in "fiu" or len(array) < LEAST_ROWS:
        return None
    flat = array.reshape(len(array), -1)
    if flat.shape[1] < NARROWEST:
        return None
    constant = (flat == flat[:, :1]).all(1)
    if constant.mean() < OFTEN or (~constant).sum() < WRITTEN:
        return None
    values, counts = numpy.unique(flat[constant, 0], return_counts=True)
    empty: NDArray[numpy.bool_] = constant & (flat[:, 0] == values[counts.argmax()])
    stretches = _stretches(empty)
    if empty.mean() < OFTEN or len(stretches) > STRETCHES or empty.sum() < LENGTH * len(stretches):
        return None
    return empty


def _stretches(empty: NDArray[numpy.bool_]) -> list[tuple[int, int]]:
    edges = numpy.flatnonzero(numpy.diff(numpy.concatenate([[False], empty, [False]]).astype(numpy.int8)))
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))


def _varies(other: Table, without: str | None, empty: NDArray[numpy.bool_]) -> bool:
    """Whether something else about the empty rows varies: the recordings that they were made from, or their labels."""
    for name, array in other.arrays:
        rows = array.reshape(len(array), -1)[empty]
        if name != without and rows.shape[1] >= NARROWEST and not (rows == rows[:, :1]).all(1).mean() > OFTEN:
            return True
    for column in other.columns:
        if column.kind == "digest" or (without is not None and column.name.partition("[")[0] == without):
            continue
        cells = numpy.array(column.words) if column.numbers is None else column.numbers
        values, counts = numpy.unique(cells[empty], return_counts=True)
        if len(values) > 1 and counts.max() <= ALL_ALIKE * empty.sum() and len(values) * MOST_VALUES <= empty.sum():
            return True
    return False
