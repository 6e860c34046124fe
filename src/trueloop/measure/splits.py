"""Which rows are for training and which for evaluation: by the names of files, of lists of rows, or of a column."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import permutations
from typing import Final, Literal, NamedTuple

import numpy
from numpy.typing import NDArray

from trueloop.measure.tables import Table, Values

__all__ = ["Split", "kind_of", "rows_of", "sides", "split_of"]

LEAST: Final = 40  # rows of a side
MOST_VALUES: Final = 8  # of a column that says what a row is for

Split = Literal["training", "evaluation", ""]
_SPLITS: Final = {
    "training": r"train|training|fit",
    "evaluation": r"val|valid|validation|test|testing|dev|eval|evaluation|hold|holdout|heldout|unseen",
}


class Sides(NamedTuple):
    """Rows for training and rows for evaluation of one kind."""

    training: Table
    evaluation: Table
    names: tuple[str, str]
    inside: bool = False  # of one file


def split_of(name: str) -> Split:
    """What a file, or a list of rows, is for, by its name."""
    words = re.split(r"[^a-z]+", os.path.basename(name).lower())
    for split, pattern in _SPLITS.items():
        if any(re.fullmatch(pattern, word) for word in words):
            return split  # type: ignore[return-value]
    return ""


def kind_of(name: str) -> str:
    """'sales' of sales-2019.csv and of sales_train.csv."""
    words = re.split(r"[^a-z]+", os.path.splitext(os.path.basename(name))[0].lower())
    return " ".join(word for word in words if word and not split_of(word))


def sides(tables: list[Table], listed: Mapping[str, Mapping[str, list[int]]]) -> Iterator[Sides]:
    """`listed`: of each file with lists of rows, the rows by the name of the list."""
    for first, second in permutations(tables, 2):
        named = split_of(first.path), split_of(second.path)
        if named == ("training", "evaluation") and kind_of(first.path) == kind_of(second.path):
            yield Sides(first, second, (os.path.basename(first.path), os.path.basename(second.path)))
    for table in tables:
        name = os.path.basename(table.path)
        for column, parts in _parts(table, listed):
            for one, other in permutations(parts, 2):
                if (split_of(one), split_of(other)) == ("training", "evaluation"):
                    rows, others = parts[one], parts[other]
                    if min(len(rows), len(others)) >= LEAST and not len(numpy.intersect1d(rows, others)):
                        labels = (f"{column}{one} ({name})", f"{column}{other} ({name})")
                        yield Sides(rows_of(table, rows), rows_of(table, others), labels, True)


def _parts(
    table: Table, listed: Mapping[str, Mapping[str, list[int]]]
) -> Iterator[tuple[str, dict[str, NDArray[numpy.int64]]]]:
    for column in table.columns:
        if column.words is not None and column.kind != "digest" and 2 <= len(set(column.words)) <= MOST_VALUES:
            words = numpy.array(column.words)
            yield f"{column.name} = ", {str(word): numpy.flatnonzero(words == word) for word in numpy.unique(words)}
    for lists in listed.values():
        named = {name: numpy.unique(rows) for name, rows in lists.items() if split_of(name) and len(rows) >= LEAST}
        if named and table.complete and _covers(named.values(), table.rows):
            yield "", named


def _covers(lists: Iterable[NDArray[numpy.int64]], rows: int) -> bool:
    """Lists of row numbers that name nearly all rows of a table, and no others."""
    both = numpy.unique(numpy.concatenate(list(lists)))
    return bool(both[0] >= 0 and both[-1] < rows and len(both) >= 0.9 * rows)


def rows_of(table: Table, rows: NDArray[numpy.int64]) -> Table:
    columns = tuple(_taken(column, rows) for column in table.columns)
    arrays = tuple((name, array[rows]) for name, array in table.arrays)
    return Table(table.path, columns, len(rows), table.named, table.complete, arrays=arrays)


def _taken(column: Values, rows: NDArray[numpy.int64]) -> Values:
    numbers = None if column.numbers is None else column.numbers[rows]
    words = None if column.words is None else [column.words[row] for row in rows]
    return Values(column.name, numbers, words, column.kind)
