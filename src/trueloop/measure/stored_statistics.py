"""Means and deviations that a file stores to normalize data with: are they those of the data beside it?"""

import json
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from pickle import UnpicklingError
from typing import Any, Final, NamedTuple
from zipfile import BadZipFile

import numpy
import torch
from numpy.typing import NDArray
from torch import Tensor

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
MOST_NAMES: Final = 4096  # entries of a mapping, columns
KNOWN: Final = 0.6  # of the names are columns of a table
SCALES: Final = (255.0, 100.0, 1000.0, 10_000.0, 65_535.0)  # that scripts divide by before they normalize

Floats = NDArray[numpy.float64]


class Statistics(NamedTuple):
    mean: Floats
    deviation: Floats
    names: tuple[str, ...] = ()  # of the columns, where the file gives them
    by_name: bool = False  # each number has its name, so their order means nothing


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
    """Of a JSON, TOML, npz or pt file: numbers that are called mean and std, at any place, in lists of one length or by
    the names of columns."""
    try:
        return list(_inside(_content(path), 0)) if os.path.getsize(path) <= MOST_BYTES else []
    except (OSError, ValueError, RecursionError, RuntimeError, EOFError, KeyError, UnpicklingError, BadZipFile):
        return []  # not the format that the extension says


def _content(path: str) -> Any:
    extension = os.path.splitext(path)[1].lower()
    if extension in (".json", ".toml"):
        with open(path, encoding="utf-8") as file:
            return json.load(file) if extension == ".json" else tomllib.loads(file.read())
    if extension == ".npz":
        with open(path, "rb") as binary, numpy.load(binary, allow_pickle=False) as loaded:
            return {name: loaded[name] for name in loaded.files[:MOST_NAMES]}
    if extension in (".pt", ".pth"):
        return torch.load(path, map_location="cpu", weights_only=True)
    return None


def _inside(value: Any, depth: int) -> Iterator[Statistics]:
    if depth > 4 or not isinstance(value, Mapping) or len(value) > MOST_NAMES:
        return
    means = [each for key, each in value.items() if MEAN.match(str(key).lower())]
    deviations = [each for key, each in value.items() if DEVIATION.match(str(key).lower())]
    if len(means) == len(deviations) == 1:
        yield from _stated(means[0], deviations[0], _listed_names(value))
    yield from _by_column(value)
    for each in value.values():
        yield from _inside(each, depth + 1)


def _stated(means: Any, deviations: Any, listed: tuple[str, ...]) -> Iterator[Statistics]:
    names: tuple[str, ...] = ()
    if isinstance(means, Mapping) and isinstance(deviations, Mapping) and means.keys() == deviations.keys():
        names = tuple(map(str, means))
        means, deviations = list(means.values()), [deviations[key] for key in means]
    mean, deviation = _numbers(means), _numbers(deviations)
    if mean is None or deviation is None or len(mean) < 2:
        return
    if mean.shape == deviation.shape and (deviation > 0).all():
        yield Statistics(mean, deviation, names or (listed if len(listed) == len(mean) else ()), bool(names))


def _by_column(value: Mapping[Any, Any]) -> Iterator[Statistics]:
    """{'age': {'mean': 40, 'std': 12}, ...}"""
    found: dict[str, tuple[Any, Any]] = {}
    for name, each in value.items():
        inner = each if isinstance(each, Mapping) and len(each) <= MOST_NAMES else {}
        means = [number for key, number in inner.items() if MEAN.match(str(key).lower())]
        deviations = [number for key, number in inner.items() if DEVIATION.match(str(key).lower())]
        if len(means) == len(deviations) == 1 and not isinstance(means[0], (list, Mapping)):
            found[str(name)] = (means[0], deviations[0])
    if len(found) > 1:
        mean, deviation = (_numbers([pair[index] for pair in found.values()]) for index in (0, 1))
        if mean is not None and deviation is not None and (deviation > 0).all():
            yield Statistics(mean, deviation, tuple(found), by_name=True)


def _listed_names(value: Mapping[Any, Any]) -> tuple[str, ...]:
    """The only list of different words beside the numbers: the names of the columns."""
    lists = [each for each in value.values() if isinstance(each, list) and each and type(each[0]) is str]
    words = lists[0] if len(lists) == 1 else []
    return tuple(words) if len(set(map(str, words))) == len(words) and all(type(w) is str for w in words) else ()


def _numbers(value: Any) -> Floats | None:
    if isinstance(value, Tensor) and value.layout == torch.strided and not value.is_complex():
        value = value.detach().double().numpy()
    if isinstance(value, numpy.ndarray):
        if value.dtype.kind not in "fiu" or value.size != max(value.shape, default=1) or value.size > MOST_NAMES:
            return None
        value = value.reshape(-1).tolist()  # [1, C, 1, 1] of a picture
    listed = value if isinstance(value, list) else [value]
    if not listed or not all(type(each) in (int, float) and abs(each) < MOST for each in listed):
        return None  # also NaN, and whole numbers beyond all of float64's
    return numpy.array(listed, dtype=numpy.float64)


def foreign_statistics(stated: Statistics, tables: list[Table]) -> ForeignStatistics | None:
    """Of an array with as many columns or channels, or of columns of these names. None if they fit any of the files, or
    none has that form."""
    found: list[ForeignStatistics] = []
    for table in tables:
        for name, rows, each in _compared(stated, table):
            mean, deviation = rows.mean(0), rows.std(0)
            if not bool((deviation > 0).all()):
                continue
            fits = [_fitting(each, one) for one in _transformed(rows)]
            if any(fit.mean() > 0.5 for fit in fits) or (each.names and numpy.any(fits, 0).mean() > 0.5):
                return None  # also of data that are stored normalized
            factors = each.deviation / deviation
            offsets = numpy.abs(mean - each.mean) / each.deviation
            factor, offset = float(numpy.median(factors)), float(numpy.median(offsets))
            far = (factors > APART) | (factors < 1 / APART) | (offsets > APART)
            if far.mean() > 0.5:
                found.append(
                    ForeignStatistics(name, os.path.basename(table.path), table.rows, factor, offset, len(each.mean))
                )
    return found[0] if found else None


def _compared(stated: Statistics, table: Table) -> Iterator[tuple[str, Floats, Statistics]]:
    """Arrays of a table, each with the statistics of its columns: those of the same names, else in their order."""
    columns = {each.name: each.numbers for each in table.columns if each.numbers is not None}
    known = [name for name in stated.names if name in columns]
    if stated.names and len(known) >= max(2, KNOWN * len(stated.names)) and table.rows >= LEAST_ROWS:
        rows = numpy.stack([values for name in known if (values := columns[name]) is not None], 1)
        rows = rows[numpy.isfinite(rows).all(1)]
        kept = [stated.names.index(name) for name in known]
        moves = rows.std(0) > 0 if len(rows) >= LEAST_ROWS else numpy.zeros(len(known), bool)
        if moves.sum() >= 2:
            kept = [index for index, moving in zip(kept, moves, strict=True) if moving]
            names = tuple(stated.names[index] for index in kept)
            yield "table", rows[:, moves], Statistics(stated.mean[kept], stated.deviation[kept], names)
        return
    if not stated.by_name:
        for name, rows in _arrays(table, len(stated.mean)):
            yield name, rows, stated._replace(names=())


def _fitting(stated: Statistics, rows: Floats) -> NDArray[numpy.bool_]:
    """Of each column: whether the statistics are those of such data."""
    mean, deviation = rows.mean(0), numpy.maximum(rows.std(0), 1e-300)
    factors, offsets = stated.deviation / deviation, numpy.abs(mean - stated.mean) / stated.deviation
    normalized = (numpy.abs(mean) < 0.1) & (numpy.abs(deviation - 1) < 0.2)
    normalized = normalized if stated.names else normalized & normalized.all()
    fits: NDArray[numpy.bool_] = normalized | ((factors < ALIKE) & (factors > 1 / ALIKE) & (offsets < ALIKE))
    return fits


def _transformed(rows: Floats) -> Iterator[Floats]:
    """What a script may do to its data before it normalizes them."""
    yield from (rows, *(rows / scale for scale in SCALES), rows / rows.std(), rows / numpy.abs(rows).max())
    yield from (numpy.diff(rows, axis=0), numpy.abs(rows))
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
