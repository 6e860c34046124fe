"""A few numbers for each row of arrays that lie beside a table: what a linear probe can use."""

import os
from collections.abc import Iterator
from typing import Any, Final

import numpy
from numpy.typing import NDArray

from trueloop.measure.splits import kind_of
from trueloop.measure.tables import Table, Values

__all__ = ["BESIDE", "arrays_beside", "with_features"]

BESIDE: Final = "array beside: "
CHANNELS: Final = 16  # of a signal
COLORS: Final = 4
MOST: Final = 20  # numbers of all arrays
BLOCKS: Final = 8  # of a long row

Floats = NDArray[numpy.float64]


def arrays_beside(table: Table, tables: list[Table]) -> Iterator[tuple[str, str, NDArray[Any]]]:
    """Arrays of its own; or arrays of as many rows in its folder, of each kind the one with the most similar name."""
    folder, file = os.path.split(table.path)
    nearest: dict[str, tuple[int, Table]] = {}
    for each in tables if table.complete else ():
        there, name = os.path.split(each.path)
        if each.rows == table.rows and there == folder and each.complete and each.arrays:
            alike = next((i for i, pair in enumerate(zip(file, name, strict=False)) if pair[0] != pair[1]), len(file))
            if alike > nearest.get(kind_of(name), (-1, each))[0]:
                nearest[kind_of(name)] = alike, each
    found = [("", table)] if table.arrays else [(kind, each) for kind, (_, each) in nearest.items()]
    for kind, each in found:
        for name, array in each.arrays:
            yield kind, name, array


def with_features(table: Table, tables: list[Table]) -> Table | None:
    """The table with columns that summarize the arrays beside it; None if there are none."""
    columns: list[Values] = []
    for file, name, array in arrays_beside(table, tables):
        for index, values in enumerate(_features(array)):
            columns.append(Values(f"{BESIDE}{file}.{name} {index}", values))
    if not columns:
        return None
    columns = columns[:: -(-len(columns) // MOST)]
    kept = tuple(each for each in table.columns if each.kind != "digest" and not each.name.endswith("]"))
    return Table(table.path, (*kept, *columns), table.rows, table.named, table.complete)


def _features(array: NDArray[Any]) -> list[Floats]:
    if array.dtype.kind not in "fiub" or array.ndim not in (2, 3, 4):
        return []
    parts = _channels(array.astype(numpy.float64))
    if not parts or not all(bool(numpy.isfinite(part).all()) for part in parts):
        return []
    if array.ndim == 2:
        return [block.mean(1) for block in numpy.array_split(parts[0], BLOCKS, axis=1) if block.shape[1]]
    found = []
    for part in parts:
        rows = part.reshape(len(part), -1)
        rough = numpy.abs(numpy.diff(part, axis=-1)).reshape(len(part), -1)
        last = rows[:, -max(1, rows.shape[1] // 3) :] if array.ndim == 3 and len(parts) > 1 else rough
        found += [rows.mean(1), last.mean(1)] + ([] if len(parts) > 8 else [rows.std(1)])
    return found


def _channels(array: Floats) -> list[Floats]:
    """Of signals and of pictures: each channel alone, with its rows first."""
    if array.ndim == 4:
        axis = 3 if array.shape[3] <= COLORS else 1
    elif array.ndim == 3 and array.shape[1] != array.shape[2] and min(array.shape[1:]) <= CHANNELS:
        axis = 1 if array.shape[1] <= array.shape[2] else 2
    else:
        return [array]
    return (
        [part.squeeze(axis) for part in numpy.split(array, array.shape[axis], axis)]
        if array.shape[axis] <= CHANNELS
        else []
    )
