"""Columns whose sign or scale is turned in one file, or in one part of a file, against the arrays that lie beside them.

The targets of pictures and of signals are often the only column. What a linear probe reads from a few numbers of each
array is enough: a probe predicts turned values as well as the others, with the opposite sign.
"""

import os
from collections.abc import Iterator
from itertools import combinations
from typing import Final, NamedTuple

from trueloop.measure.array_features import with_features
from trueloop.measure.sister_files import sisters
from trueloop.measure.splits import kind_of
from trueloop.measure.table_differences import Difference
from trueloop.measure.table_relations import Relation, as_difference, parts_by_group, relations, relations_of_files
from trueloop.measure.tables import Table

__all__ = ["TurnedColumn", "turned_columns"]

CLEARLY: Final = 0.5  # correlation inside of each part
FULLY: Final = 0.7  # of it, the other way round: lighting and cameras turn some features only


class TurnedColumn(NamedTuple):
    difference: Difference
    table: Table
    names: tuple[str, str]  # of two files, or of two parts of one
    rows: tuple[int, int]
    group: str = ""


def turned_columns(tables: list[Table]) -> Iterator[TurnedColumn]:
    both = [each for table in tables if (each := with_features(table, tables)) is not None]
    for table in both:
        for parts in parts_by_group(table):
            for part, other in combinations(parts, 2):
                names = f"{part.column} = {part.value}", f"{part.column} = {other.value}"
                for found in filter(_is_turned, relations(table, table, part.rows, other.rows)):
                    yield TurnedColumn(
                        as_difference(found), table, names, (len(part.rows), len(other.rows)), part.column
                    )
    for first, second in combinations(both, 2):
        if kind_of(first.path) == kind_of(second.path):
            names = os.path.basename(first.path), os.path.basename(second.path)
            for found in filter(_is_turned, relations_of_files(first, second, sisters(first, second, both))):
                yield TurnedColumn(as_difference(found), second, names, (first.rows, second.rows))


def _is_turned(found: Relation) -> bool:
    inside = min(found.inside)
    return found.kind == "inverted" and inside >= CLEARLY and max(found.across) <= -FULLY * inside
