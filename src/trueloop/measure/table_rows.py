"""Rows of two files: the same rows in another order, one row less, rows that are in both, ids that count from 1."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy
from numpy.typing import NDArray

from trueloop.measure.tables import Table, Values

__all__ = ["RowOrder", "copied_rows", "have_keys", "ids_from_one", "row_order"]

LEAST: Final = 100  # rows
DISTINCT: Final = 20  # values of a column that is recognized in another file
TOLERANCE: Final = 0.15  # of the difference of two samples of one distribution
UNRELATED: Final = 0.5  # correlation, row by row
SAME: Final = 0.999
MOST: Final = 64  # columns
LEAST_WIDE: Final = 8  # columns of an array whose rows have a mean of their own
ALL_OF_THEM: Final = 0.99  # of the ids occur
PAIR_AND_MORE: Final = 3  # columns of a pair, with its kind or its weight

Floats = NDArray[numpy.float64]


class RowOrder(NamedTuple):
    """A column of one file that is in the other file too, with its rows in another order."""

    column: str
    other: str
    correlation: float
    keyed: bool  # the files have a column of one name that tells the rows apart: they can be joined by it


def row_order(first: Table, second: Table) -> RowOrder | None:
    if first.rows != second.rows or first.rows < LEAST or not (first.complete and second.complete):
        return None
    left, right = _standard(first), _standard(second)
    found = None
    for name, (values, ordered) in left.items():
        for other, (theirs, sorted_theirs) in right.items():
            if _rms(ordered - sorted_theirs) >= TOLERANCE / first.rows**0.5:
                continue
            correlation = float(numpy.mean(values * theirs))
            if correlation > SAME:
                return None
            if correlation < UNRELATED and not (_counts(ordered) and name != other):
                found = found or RowOrder(name, other, correlation, have_keys(first, second))
    return found


def have_keys(first: Table, second: Table) -> bool:
    """Whether both files name their rows, by columns of one name or by a column of ids: they can be joined by it."""
    shared = [name for name in first.names if name in second.names and first.named and second.named]
    if shared and all(_apart([table.column(name) for name in shared]) for table in (first, second)):
        return True
    return all(any(_apart([column]) for column in table.columns) for table in (first, second))


def _apart(columns: list[Values]) -> bool:
    """Do these columns tell all rows apart: words, or whole numbers?"""
    kept = []
    for column in columns:
        if column.kind == "digest" or (column.numbers is not None and not _whole(column.numbers)):
            return False
        kept.append(column.words if column.numbers is None else column.numbers.tolist())
    rows = list(zip(*kept, strict=True))
    return len(set(rows)) == len(rows)


def _whole(values: Floats) -> bool:
    return bool((values == numpy.round(values)).all())


def _counts(ordered: Floats) -> bool:
    """Numbers in equal steps: every file may have its own."""
    steps = numpy.diff(ordered)
    steps = steps[steps > 1e-9]
    return bool(steps.max() - steps.min() < 1e-6)


def _standard(table: Table) -> dict[str, tuple[Floats, Floats]]:
    kept = {}
    columns = [(column.name, column.numbers) for column in table.columns[:MOST]]
    for name, values in (*columns, *_row_statistics(table)):
        if values is None or not numpy.isfinite(values).all() or len(numpy.unique(values)) < DISTINCT:
            continue
        values = (values - values.mean()) / values.std()
        kept[name] = (values, numpy.sort(values))
    return kept


def _row_statistics(table: Table) -> Iterator[tuple[str, Floats]]:
    """The mean and the maximum of each row of an array: features that were made from it often have them."""
    arrays: defaultdict[str, list[Floats]] = defaultdict(list)
    for column in table.columns:
        if column.numbers is not None and column.kind != "text" and column.name.endswith("]"):
            arrays[column.name.rpartition("[")[0]].append(column.numbers)
    for name, columns in arrays.items():
        if len(columns) >= LEAST_WIDE:
            rows = numpy.stack(columns, 1)
            yield f"mean of {name}", rows.mean(1)
            yield f"maximum of {name}", rows.max(1)


def _rms(values: Floats) -> float:
    return float(numpy.sqrt(numpy.mean(values**2)))


def copied_rows(first: Table, second: Table) -> tuple[int, float] | None:
    """How many rows of the second table are in the first one too, and the share of rows that are twice in the first."""
    names = [c.name for c in first.columns if c.name in second.names and not _is_id(c)]
    names = [name for name in names if not _is_id(second.column(name))]
    if not names or min(first.rows, second.rows) < LEAST or len(names) < 0.6 * len(first.columns):
        return None
    rows, others = _tuples(first, names), _tuples(second, names)
    known = Counter(rows)
    again = 1 - len(known) / len(rows)
    if not any(_is_rich(first.column(name)) for name in names):  # lists of files or of ids: alike in every split
        return None
    return sum(row in known for row in others), again


def _is_rich(column: Values) -> bool:
    """Measured numbers, texts, or rows of pictures: two rows are equal only if one was copied. Or many codes."""
    if column.kind == "digest":
        return True
    if column.words is not None:
        return sum(len(word.split()) > 2 for word in column.words) > 0.5 * len(column.words)
    values = column.numbers
    assert values is not None
    return len(numpy.unique(values)) >= DISTINCT and not bool((numpy.diff(values) >= 0).all())


def _tuples(table: Table, names: list[str]) -> list[tuple[object, ...]]:
    columns = [table.column(name) for name in names]
    kept = [column.words if column.numbers is None else column.numbers.tolist() for column in columns]
    return list(zip(*(values or [] for values in kept), strict=True))


def _is_id(column: Values) -> bool:
    """A different one in every row, in order: numbers that count, or words that end in them."""
    if column.numbers is not None:
        steps = numpy.diff(column.numbers)
        return bool((steps > 0).all()) and bool((column.numbers == numpy.round(column.numbers)).all())
    words = column.words or []
    return (
        column.kind != "digest"
        and len(set(words)) == len(words)
        and all(re.fullmatch(r"\S*\d+\S*", word) for word in words)
    )


def ids_from_one(edges: Table, nodes: Table) -> bool:
    """Do two columns name nearly every row of another file, counted from 1, and never its row 0?

    A sequence of words, or a sister file, names no rows. A row 0 that is empty is reserved, for padding or for unknown
    words, and names count from 1 rightly.
    """
    columns = [c for c in edges.columns if c.numbers is not None]
    if len(columns) < 2 or not edges.complete or _is_sequence(columns) or _is_sister(edges, nodes):
        return False
    pair = numpy.concatenate([c.numbers for c in columns[:2] if c.numbers is not None])
    whole = numpy.isfinite(pair).all() and bool((pair == numpy.round(pair)).all())
    if not whole or pair.min() != 1 or pair.max() != nodes.rows - 1:
        return False
    return len(numpy.unique(pair)) >= ALL_OF_THEM * (nodes.rows - 1) and not _is_reserved(nodes)


def _is_sequence(columns: list[Values]) -> bool:
    """An array with more columns than a pair and its kind or weight: x[0], x[1], ..."""
    array = columns[0].name.rpartition("[")[0]
    return columns[0].name.endswith("[0]") and f"{array}[{PAIR_AND_MORE}]" in [each.name for each in columns]


def _is_sister(edges: Table, nodes: Table) -> bool:
    return edges.named and nodes.named and len(set(edges.names) & set(nodes.names)) >= 0.5 * len(edges.names)


def _is_reserved(nodes: Table) -> bool:
    """Whether row 0 holds zeros only, unlike the others."""
    columns = [c.numbers for c in nodes.columns if c.numbers is not None]
    first = [values[0] for values in columns]
    return len(columns) > 0 and not any(first) and all(values[1:].any() for values in columns)
