"""Whether the factor between two files is one between units, or chance: sister files and the other columns tell.

Files of many patients, machines or sites have levels of their own, and the ratio of two of them is often near a factor
between two units. A file in another unit differs otherwise: its sister files agree with it or with the other file, and
so do most of its other columns.
"""

from collections.abc import Iterable
from typing import Final

import numpy
from numpy.typing import NDArray

from trueloop.measure.distributions import distance
from trueloop.measure.splits import kind_of, split_of
from trueloop.measure.table_differences import LEAST, Difference
from trueloop.measure.tables import Table
from trueloop.measure.unit_relations import in_two_units

__all__ = ["is_in_two_units", "sisters", "standing_out"]

NEAR: Final = 0.5  # distance of two distributions (Kolmogorov-Smirnov): sister files that use one unit
ALIKE: Final = 0.3  # the same of a column that is not in question
BESIDE: Final = 1 / 3  # of the way from one file to the other, on a logarithmic scale
MOST: Final = 0.5  # of the other columns of two files from one population are alike
NEARLY_ALL: Final = 0.8  # the same of two files of which nothing says so: red wine and white wine
SURE: Final = 5.0  # times larger: more than most levels differ
FEW: Final = 2  # sister files that say as much as another column
DISTINCT: Final = 10  # values
LETTERS: Final = 2  # in the name of a column that does not tell what it is: x, y, z, ax
TELLING: Final = 3  # names of columns that do, besides a time

Floats = NDArray[numpy.float64]


def standing_out(found: list[Difference], first: Table, second: Table, tables: list[Table]) -> list[Difference]:
    """Without the factors that chance gives. `tables`: all that the script read."""
    further = sisters(first, second, tables)
    possible = [each for each in found if each.kind != "units" or _are_two_levels(each, first, second, further)]
    units = {each.column for each in possible if each.kind == "units"}
    return [each for each in possible if each.kind != "units" or _stands_out(each, first, second, further, units)]


def _are_two_levels(found: Difference, first: Table, second: Table, further: list[Table]) -> bool:
    """Whether each sister file has the level of one of two files, and not one between or beyond them."""
    a, b = _numbers(first, found.column), _numbers(second, found.column)
    if a is None or b is None:
        return True
    known = _known(found.column, further)
    if any(min(distance(each, a), distance(each, b)) > NEAR for each in known):
        return False
    return _is_large(found) or all(_is_beside(each, a, b) for each in known)


def _stands_out(found: Difference, first: Table, second: Table, further: list[Table], units: set[str]) -> bool:
    """`units`: the columns that differ by a unit, this one among them."""
    samples = bool(split_of(first.path) and split_of(second.path)) or len(_known(found.column, further)) >= FEW
    if samples and _is_large(found):
        return True
    others = [_alike(name, first, second) for name in first.names if name not in units and name in second.names]
    compared = [alike for alike in others if alike is not None]
    if sum(compared) < (MOST if samples else NEARLY_ALL) * len(compared):
        return False  # another population
    return samples or bool(compared)


def _known(column: str, further: list[Table]) -> list[Floats]:
    values = [_numbers(each, column) for each in further]
    return [each for each in values if each is not None and len(each) >= LEAST]


def _is_large(found: Difference) -> bool:
    return found.factor >= SURE and not found.column.endswith("]")


def _is_beside(values: Floats, a: Floats, b: Floats) -> bool:
    """Whether the level of a file is that of one of two files, and not between or beyond them."""
    level, one, other = (numpy.log(max(1e-9, numpy.median(each))) for each in (values, a, b))
    return bool(min(abs(level - one), abs(level - other)) <= BESIDE * abs(one - other))


def is_in_two_units(column: str, first: Table, second: Table, tables: Iterable[Table]) -> bool:
    """Whether all further files with these columns have the amounts of one of two files."""
    values, others = first.column(column).numbers, second.column(column).numbers
    paths = (first.path, second.path)
    siblings = [each for each in tables if each.path not in paths and set(each.names) == set(first.names)]
    further = (each.column(column).numbers for each in siblings)
    return values is not None and others is not None and in_two_units(values, others, further)


def sisters(first: Table, second: Table, tables: Iterable[Table]) -> list[Table]:
    """Further files with the same columns, which mean the same: their names differ by a number or by a split, or the
    names of several columns say what they are."""
    kinds, paths = {kind_of(first.path), kind_of(second.path)}, {first.path, second.path}
    tell = first.named and sum(len(name) > LETTERS for name in first.names) >= TELLING
    return [
        each
        for each in tables
        if each.path not in paths and (tell or kind_of(each.path) in kinds) and set(each.names) == set(first.names)
    ]


def _alike(name: str, first: Table, second: Table) -> bool | None:
    """None: a column that says nothing, such as a constant or a count of the rows."""
    a, b = _numbers(first, name), _numbers(second, name)
    if a is None or b is None or min(len(a), len(b)) < LEAST:
        return None
    if any(len(numpy.unique(each)) < DISTINCT or _counts(each) for each in (a, b)):
        return None
    return distance(a, b) < ALIKE


def _counts(values: Floats) -> bool:
    steps = numpy.diff(values)
    return bool((steps >= 0).all() or (steps <= 0).all())


def _numbers(table: Table, name: str) -> Floats | None:
    columns = (*table.columns, *table.channels)
    values = next((column.numbers for column in columns if column.name == name), None)
    return None if values is None else values[numpy.isfinite(values)]
