"""Which rows are for training and which for evaluation: by the names of files, of lists of rows, or of a column."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import permutations
from typing import Final, Literal, NamedTuple

import numpy
from numpy.typing import NDArray

from trueloop.measure.tables import Table, Values

__all__ = ["Split", "is_part", "kind_of", "listed_rows", "rows_of", "sides", "split_of"]

LEAST: Final = 40  # rows of a side
MOST_VALUES: Final = 8  # of a column that says what a row is for
MOST_FOLDS: Final = 20
_FOLD: Final = r"(\w+_)?k?folds?(_\w+)?"

Rows = NDArray[numpy.int64]
LEAST_LISTED: Final = 20  # rows
_PARTS: Final = frozenset(
    ("all", "full", "raw", "complete", "sample", "subset", "cache", "cached", "backup", "copy", "old", "index", "meta",
     "merged")
)  # fmt: skip

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
        for one, other, rows, others in _parts(table, listed):
            for each in (table, *_beside(table, tables)):
                labels = (f"{one} ({name})", f"{other} ({name})")
                yield Sides(rows_of(each, rows), rows_of(each, others), labels, True)


def _parts(table: Table, listed: Mapping[str, Mapping[str, list[int]]]) -> Iterator[tuple[str, str, Rows, Rows]]:
    """The rows for training and those for evaluation, each with their name."""
    for column in table.columns:
        if column.words is not None and column.kind != "digest" and 2 <= len(set(column.words)) <= MOST_VALUES:
            words = numpy.array(column.words)
            named = {str(word): numpy.flatnonzero(words == word) for word in numpy.unique(words)}
            yield from _named_sides(named, f"{column.name} = ")
        elif column.numbers is not None and re.fullmatch(_FOLD, column.name.lower()):
            values = numpy.unique(column.numbers)
            if 2 <= len(values) <= MOST_FOLDS:
                rows, others = (numpy.flatnonzero(mask) for mask in
                                (column.numbers != values[0], column.numbers == values[0]))  # fmt: skip
                if min(len(rows), len(others)) >= LEAST:
                    yield f"the other folds by {column.name}", f"{column.name} = {values[0]:g}", rows, others
    for lists in listed.values():
        named = {name: numpy.unique(rows) for name, rows in lists.items() if split_of(name) and len(rows) >= LEAST}
        if named and table.complete and _covers(named.values(), table.rows):
            yield from _named_sides(named, "")


def _named_sides(named: Mapping[str, Rows], before: str) -> Iterator[tuple[str, str, Rows, Rows]]:
    for one, other in permutations(named, 2):
        if (split_of(one), split_of(other)) == ("training", "evaluation"):
            rows, others = named[one], named[other]
            if min(len(rows), len(others)) >= LEAST and not len(numpy.intersect1d(rows, others)):
                yield before + one, before + other, rows, others


def _beside(table: Table, tables: list[Table]) -> Iterator[Table]:
    """Other tables of the same rows: a column of both, with many values, is equal row by row."""
    for other in tables:
        if other is table or other.rows != table.rows or not (table.complete and other.complete):
            continue
        shared = [(column, other.column(column.name)) for column in table.columns if column.name in other.names]
        if any(_equal(*pair) for pair in shared):
            yield other


def _equal(one: Values, other: Values) -> bool:
    if one.numbers is not None and other.numbers is not None:
        return len(numpy.unique(one.numbers)) > MOST_VALUES and numpy.array_equal(one.numbers, other.numbers)
    return one.words is not None and one.words == other.words and len(set(one.words)) > MOST_VALUES


def _covers(lists: Iterable[Rows], rows: int) -> bool:
    """Lists of row numbers that name nearly all rows of a table, and no others."""
    both = numpy.unique(numpy.concatenate(list(lists)))
    return bool(both[0] >= 0 and both[-1] < rows and len(both) >= 0.9 * rows)


def rows_of(table: Table, rows: Rows) -> Table:
    """Some rows, with their numbers."""
    columns = (*(_taken(column, rows) for column in table.columns), Values("row number", rows.astype(numpy.float64)))
    arrays = tuple((name, array[rows]) for name, array in table.arrays)
    return Table(table.path, columns, len(rows), table.named, table.complete, arrays=arrays)


def _taken(column: Values, rows: Rows) -> Values:
    numbers = None if column.numbers is None else column.numbers[rows]
    words = None if column.words is None else [column.words[row] for row in rows]
    return Values(column.name, numbers, words, column.kind)


def listed_rows(content: object) -> Iterator[tuple[str, list[int | str]]]:
    """Lists of numbers or names of rows, by their key."""
    for key, value in content.items() if isinstance(content, dict) else ():
        if isinstance(value, list) and len(value) >= LEAST_LISTED and all(isinstance(v, (int, str)) for v in value):
            yield str(key), value
        elif isinstance(value, dict):
            yield from listed_rows(value)


def is_part(path: str) -> bool:
    """Whether a file, by its name, is made from another file, or others from it: sharing rows is then expected."""
    words = re.split(r"[^a-z]+", os.path.basename(path).lower())
    return not _PARTS.isdisjoint(words)
