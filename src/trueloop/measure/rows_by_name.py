"""Rows that get a target by their name: do the rows of each name tell something about it, or those of a different one?

The names are in a column of a table with some rows for each of them, or in a list beside an array: row n has name n.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy
from numpy.typing import NDArray

from trueloop.measure.alignments import Order, better_order, orders_of_keys, orders_of_rows
from trueloop.measure.named_rows import (
    LEAST,
    MOST,
    Misplaced,
    association,
    keys_of,
    row_vectors,
    targets_of,
)
from trueloop.measure.tables import Table, Values

__all__ = ["MisplacedByName", "misplaced_by_name"]

MOST_TARGETS: Final = 4
MOST_GROUPED: Final = 100_000  # rows

Floats = NDArray[numpy.float64]


class MisplacedByName(NamedTuple):
    rows: Table
    names: Table  # that says which row has which name; the same table if a column of it does
    misplaced: Misplaced


class _Source(NamedTuple):
    """Numbers for each name."""

    table: Table
    listed: Table
    array: str
    names: list[str]  # one for each row of `rows`
    rows: Floats


def misplaced_by_name(table: Table, tables: list[Table]) -> MisplacedByName | None:
    """Targets of a table with one row for each name, which only the rows of different names tell something about."""
    if not LEAST <= table.rows <= MOST or not table.complete:
        return None
    keys = dict(keys_of(table))
    targets = list(targets_of(table, keys))[:MOST_TARGETS]
    for name, cells in keys.items() if targets else ():
        for source in _sources(table, cells, tables):
            place = {each: row for row, each in enumerate(source.names)}
            used = numpy.array([place[each] for each in cells])
            others = _orders(name, cells, source.names, used)
            for column, values in targets:
                found = better_order([association(source.rows, values)], [used, numpy.arange(table.rows)], others)
                if found is not None:
                    return MisplacedByName(source.table, source.listed, Misplaced(source.array, column, found))
    return None


def _orders(name: str, cells: list[str], listed: list[str], used: Order) -> dict[str, Order]:
    """Of the list of names, or of the targets beside them. Not moved by some rows: a forecast has later targets."""
    sorted_ones = {
        label: order for label, order in orders_of_rows(len(cells)).items() if "sorted" in label or "text" in label
    }
    own = sorted_ones | orders_of_keys(f"`{name}`", cells)
    found = {label: used[order] for label, order in own.items()}
    if listed != cells:
        found |= {label: order[used] for label, order in (sorted_ones | orders_of_keys("their names", listed)).items()}
    return found


def _sources(table: Table, cells: list[str], tables: list[Table]) -> Iterator[_Source]:
    wanted = set(cells)
    others = [other for other in tables if other.path != table.path and other.complete]
    lists = [(other, names) for other in others for _, names in keys_of(other) if set(names) == wanted]
    if lists and all(names == lists[0][1] for _, names in lists):  # two lists: the script may read either
        for other in others:
            if other.rows == table.rows and not any(True for _ in keys_of(other)):
                for name, array in other.arrays:
                    rows = row_vectors(array)
                    if rows is not None:
                        yield _Source(other, lists[0][0], name, lists[0][1], rows)
    for other in others if not lists else ():
        for column in other.columns if table.rows < other.rows <= MOST_GROUPED else ():
            names = _cells(column)
            if names and set(names) == wanted:
                rows = _of_groups(other, column, names)
                if rows is not None:
                    yield _Source(other, other, "", list(dict.fromkeys(names)), rows)


def _cells(column: Values) -> list[str]:
    """As keys are written: words, or whole numbers."""
    words = column.words if column.numbers is None else column.spelled
    if words is None and column.numbers is not None and bool((column.numbers == numpy.round(column.numbers)).all()):
        return [f"{value:.0f}" for value in column.numbers]
    return list(words or ()) if column.kind != "digest" else []


def _of_groups(table: Table, names: Values, cells: list[str]) -> Floats | None:
    """Of the rows of each name: how many there are, and the mean, the spread, the ends and the last one of columns."""
    number = {name: index for index, name in enumerate(dict.fromkeys(cells))}
    groups = numpy.array([number[cell] for cell in cells])
    counts = numpy.bincount(groups).astype(numpy.float64)
    found = [counts]
    by_group = numpy.argsort(groups, kind="stable")
    begins = numpy.concatenate([[0], counts.cumsum()[:-1]]).astype(numpy.int64)
    for column in table.columns:
        if column is names or column.numbers is None or not numpy.isfinite(column.numbers).all():
            continue
        values = column.numbers[by_group]
        mean = numpy.add.reduceat(values, begins) / counts
        squares = numpy.add.reduceat((values - mean.repeat(counts.astype(numpy.int64))) ** 2, begins) / counts
        last = values[begins + counts.astype(numpy.int64) - 1]
        found += [
            mean,
            squares**0.5,
            numpy.minimum.reduceat(values, begins),
            numpy.maximum.reduceat(values, begins),
            last,
        ]
    return row_vectors(numpy.stack(found, 1)) if len(found) > 1 else None
