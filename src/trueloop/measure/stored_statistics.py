"""Means and deviations that a file stores to normalize data with: are they those of the data beside it?"""

import json
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import numpy
from numpy.typing import NDArray

from trueloop.measure.table_differences import Difference
from trueloop.measure.tables import Table

__all__ = ["ForeignStatistics", "Statistics", "foreign_statistics", "read_statistics"]

MEAN: Final = re.compile(r"^(means?|mu|avg|averages?|cent(er|re)s?)$")
DEVIATION: Final = re.compile(r"^(stds?|sds?|sigmas?|stdevs?|scales?|std_?devs?|deviations?)$")
MOST_BYTES: Final = 2**20
MOST: Final = 1e100  # a statistic of data
LARGEST: Final = 2**24  # numbers of an array
ALIKE: Final = 3.0  # deviations within this factor, and means within this many deviations: of the same kind of data
APART: Final = 8.0  # times as large, or as small, or means this many deviations away, in most columns
LEAST_ROWS: Final = 30

Floats = NDArray[numpy.float64]


class Statistics(NamedTuple):
    mean: Floats
    deviation: Floats


class ForeignStatistics(NamedTuple):
    """Of another data set than the array that they are stored beside."""

    array: str
    file: str
    rows: int
    factor: float  # the stored deviation is so many times that of the data, in the median
    offset: float  # means differ by so many stored deviations, in the median
    columns: int

    def difference(self) -> Difference:
        apart = f"{self.factor:.3g} times as large" if self.factor > 1 else f"{1 / self.factor:.3g} times as small"
        far = f"the means are {self.offset:.3g} of them apart"
        return Difference("statistics", self.array, f"{self.columns} means and deviations", f"{apart}, {far}")


def read_statistics(path: str) -> list[Statistics]:
    """Of a JSON file: lists of one length that are called mean and std, at any place."""
    if not path.endswith(".json"):
        return []
    try:
        with open(path, encoding="utf-8") as file:
            content = json.loads(file.read(MOST_BYTES))
    except (OSError, ValueError, RecursionError):
        return []  # not the format that the extension says
    return list(_inside(content, 0))


def _inside(value: Any, depth: int) -> Iterator[Statistics]:
    if depth > 4 or not isinstance(value, Mapping):
        return
    means = [_numbers(each) for key, each in value.items() if MEAN.match(str(key).lower())]
    deviations = [_numbers(each) for key, each in value.items() if DEVIATION.match(str(key).lower())]
    if len(means) == len(deviations) == 1:
        mean, deviation = means[0], deviations[0]
        if mean is not None and deviation is not None and mean.shape == deviation.shape and (deviation > 0).all():
            yield Statistics(mean, deviation)
    for each in value.values():
        yield from _inside(each, depth + 1)


def _numbers(value: Any) -> Floats | None:
    listed = value if isinstance(value, list) else [value]
    if not listed or not all(type(each) in (int, float) and abs(each) < MOST for each in listed):
        return None  # also NaN, and whole numbers beyond all of float64's
    return numpy.array(listed, dtype=numpy.float64)


def foreign_statistics(stated: Statistics, tables: list[Table]) -> ForeignStatistics | None:
    """Of an array with as many columns or channels. None if they fit any of the files, or none has that form."""
    found: list[ForeignStatistics] = []
    for table in tables:
        for name, rows in _arrays(table, len(stated.mean)):
            mean, deviation = rows.mean(0), rows.std(0)
            if not bool((deviation > 0).all()):
                continue
            if any(_fits(stated, each) for each in _transformed(rows)):
                return None  # also of data that are stored normalized
            factors = stated.deviation / deviation
            offsets = numpy.abs(mean - stated.mean) / stated.deviation
            factor, offset = float(numpy.median(factors)), float(numpy.median(offsets))
            far = (factors > APART) | (factors < 1 / APART) | (offsets > APART)
            if far.mean() > 0.5:
                found.append(
                    ForeignStatistics(name, os.path.basename(table.path), table.rows, factor, offset, len(stated.mean))
                )
    return found[0] if found else None


def _fits(stated: Statistics, rows: Floats) -> bool:
    mean, deviation = rows.mean(0), numpy.maximum(rows.std(0), 1e-300)
    factors, offsets = stated.deviation / deviation, numpy.abs(mean - stated.mean) / stated.deviation
    normalized = bool((numpy.abs(mean) < 0.1).all() and (numpy.abs(deviation - 1) < 0.2).all())
    return normalized or bool(((factors < ALIKE) & (factors > 1 / ALIKE) & (offsets < ALIKE)).mean() > 0.5)


def _transformed(rows: Floats) -> Iterator[Floats]:
    """What a script may do to its data before it normalizes them."""
    yield from (rows, rows / 255, rows / 100, rows / rows.std(), numpy.diff(rows, axis=0), numpy.abs(rows))
    if bool((rows >= 0).all()):
        yield from (numpy.log1p(rows), numpy.sqrt(rows), numpy.log(rows + 1e-6), numpy.log10(rows + 1e-6))


def _arrays(table: Table, columns: int) -> Iterator[tuple[str, Floats]]:
    """[rows, columns] of each array that has one axis of this size; of a table of numbers as a whole."""
    if table.rows < LEAST_ROWS or columns < 2:
        return
    for name, array in table.arrays:
        axes = [axis for axis in range(1, array.ndim) if array.shape[axis] == columns]
        if len(axes) == 1 and array.dtype.kind == "f" and array.size <= LARGEST:
            rows = numpy.moveaxis(array, axes[0], -1).reshape(-1, columns).astype(numpy.float64)
            if bool(numpy.isfinite(rows).all()):
                yield name or "array", rows
    numbers = [column.numbers for column in table.columns if column.numbers is not None]
    if not table.arrays and len(numbers) == columns == len(table.columns):
        rows = numpy.stack(numbers, 1)
        if bool(numpy.isfinite(rows).all()):
            yield "table", rows
