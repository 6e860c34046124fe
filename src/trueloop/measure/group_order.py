"""The order of the rows of each user, patient or machine: of events in one file, by a code in the other."""

from itertools import pairwise
from typing import Final, NamedTuple

import numpy
from numpy.typing import NDArray

from trueloop.measure.tables import Table, Values

__all__ = ["LostOrder", "lost_order", "sorted_events"]

LEAST_GROUPS: Final = 30
LEAST_LENGTH: Final = 4  # rows of a group, in the median
MOST_ROWS: Final = 20_000
RARELY: Final = 0.2  # of the groups are in order by chance
SHARED: Final = 0.9  # of the codes
LEAST_CODES: Final = 20

Floats = NDArray[numpy.float64]


class LostOrder(NamedTuple):
    group: str
    column: str  # by which the rows of each group are sorted
    groups: int
    elsewhere: float  # share of the groups, or rows, of the other file that are in this order
    time: str = ""  # column by which the groups of the other file are sorted


def lost_order(table: Table, other: Table) -> LostOrder | None:
    """Groups of the first table are sorted by a code; those of the second, with the same columns, by a time."""
    for column in table.columns:
        if column.name not in other.names or column.name == "":
            continue
        here, there = (_groups(each.column(column.name)) for each in (table, other))
        if here is None or there is None:
            continue
        shares = {name: (_in_order(table.column(name), here), _in_order(other.column(name), there))
                  for name in table.names if name != column.name and name in other.names}  # fmt: skip
        codes = [name for name, (a, b) in shares.items() if a == 1.0 and b < RARELY]
        times = [name for name, (a, b) in shares.items() if b == 1.0 and a < RARELY]
        if codes and times:
            return LostOrder(column.name, codes[0], len(here), shares[codes[0]][1], times[0])
    return None


def sorted_events(table: Table, sequences: Table) -> LostOrder | None:
    """A table of two columns, group and code, whose codes are sorted in each group; those of an array of sequences of
    the same codes are not."""
    rows = _sequences(sequences)
    if rows is None or len(table.columns) != 2:
        return None
    for group, code in ((0, 1), (1, 0)):
        groups, codes = _groups(table.columns[group]), table.columns[code].numbers
        if groups is None or codes is None or not bool((codes == numpy.round(codes)).all()):
            continue
        ours, theirs = set(numpy.unique(codes)), set(numpy.unique(rows))
        if len(ours) < LEAST_CODES or len(ours & theirs) < SHARED * max(len(ours), len(theirs)):
            continue
        elsewhere = float((numpy.diff(rows, axis=1) >= 0).all(1).mean())
        if _in_order(table.columns[code], groups) == 1.0 and elsewhere < RARELY:
            return LostOrder(table.columns[group].name, table.columns[code].name, len(groups), elsewhere)
    return None


def _groups(column: Values) -> list[slice] | None:
    """The rows of each value, if they are next to one another."""
    if column.kind == "digest":
        return None
    cells = (numpy.array(column.words) if column.numbers is None else column.numbers)[:MOST_ROWS]
    starts = [0, *(numpy.flatnonzero(cells[1:] != cells[:-1]) + 1).tolist()]
    if len(starts) <= LEAST_GROUPS or len(cells) < LEAST_LENGTH * len(starts):
        return None
    if len(numpy.unique(cells[starts])) < len(starts):
        return None
    groups = [slice(first, last) for first, last in pairwise(starts)]  # without the last one, which may be cut
    return groups if numpy.median(numpy.diff(starts)) >= LEAST_LENGTH else None


def _in_order(column: Values, groups: list[slice]) -> float:
    """The share of the groups in which a column never falls, and rises."""
    if column.kind == "digest":
        return 0.5
    cells = numpy.array(column.words) if column.numbers is None else column.numbers
    parts = [cells[each] for each in groups if each.stop - each.start >= 2]
    if all((part[0] == part).all() for part in parts):
        return 0.5  # constant in each group: it says nothing
    return float(numpy.mean([bool((part[1:] >= part[:-1]).all()) for part in parts]))


def _sequences(table: Table) -> Floats | None:
    columns = [column.numbers for column in table.columns if column.name.endswith("]") and column.kind != "text"]
    numbers = [column for column in columns if column is not None]
    if len(numbers) < LEAST_LENGTH or table.rows < LEAST_GROUPS or len(numbers) < len(table.columns):
        return None
    rows = numpy.stack(numbers, 1)
    return rows if bool(numpy.isfinite(rows).all()) and bool((rows == numpy.round(rows)).all()) else None
