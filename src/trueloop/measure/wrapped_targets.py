"""Whole numbers that began again at 256 or 65536, as what lies beside them in the rows shows.

A range that is filled evenly looks the same after it has wrapped around, and as a different unit. The rows beside it
tell: the nearest rows of the other file have nearly the same number, or one that is exactly a whole range larger, and
hardly any lies between. Or, within one file, the most similar rows lie on both sides of the end of the range as often
as on both sides of any other number.
"""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy
from numpy.typing import NDArray

from trueloop.measure.array_features import arrays_beside
from trueloop.measure.range_seam import Seam, ranges, seam_between
from trueloop.measure.splits import kind_of
from trueloop.measure.table_differences import Difference
from trueloop.measure.tables import Table, Values

__all__ = ["Wrapped", "wrapped", "wrapped_among_rows", "wrapped_targets"]

RANGES: Final = (2.0**8, 2.0**16)
LEAST: Final = 100  # rows of each file
MOST_ROWS: Final = 1500
MOST_FEATURES: Final = 256
MOST_INPUTS: Final = 4  # arrays beside a column
NEAREST: Final = 5  # rows whose median predicts
FULL: Final = 0.95  # of the range is reached
DISTINCT: Final = 20  # numbers
BEYOND: Final = 0.1  # of the rows of the other file do not fit the range; and of these, too small ones
FEWEST: Final = 30  # rows that are a range too low
CLOSE: Final = 0.2  # of the range
MOSTLY: Final = 0.8  # of the rows are close: by chance 0.4
BETWEEN: Final = 0.3  # of the range, and more
HARDLY: Final = 0.1  # of the rows: by chance 0.4
EXACT: Final = 0.04  # of the range: what is too low is so by the range, and by nothing else
MOST_ALONE: Final = 4000  # rows that are compared with one another
MOST_COLUMNS: Final = 4  # of a table that fill a range
SIMILAR: Final = 3  # rows
COUNTS_UP: Final = 0.99  # of the steps, over the end of the range too
CIRCULAR: Final = re.compile(
    r"angle|phase|heading|bearing|azimuth|direction|dir|course|yaw|pitch|roll|theta|phi|psi|rotation|orientation|hue"
    r"|hsv|tod|time|timestamp|seq|sequence|counter|frame|packet|id|index|idx|key|code|hash|seed|crc|checksum|port|addr"
    r"|address|ip|encoder|position|pos|doppler|wd|octet|byte"
)
"""Words of names of what begins again by itself, or has no order."""
STUCK: Final = 0.2  # share of one number, of the rows that are too low: a code for missing values, or clipping

Floats = NDArray[numpy.float64]


class Wrapped(NamedTuple):
    bits: int
    low: float  # share of the rows that are a whole range lower than their nearest rows
    near: float  # share of the rows that have nearly the number of their nearest rows
    between: float


def wrapped(values: Floats, inputs: Floats, others: Floats, their_inputs: Floats) -> Wrapped | None:
    """Whether the first values wrapped around, and those of the other file did not. `inputs`: [rows, features]."""
    size = _range(values, others)
    if size is None or min(len(values), len(others)) < LEAST:
        return None
    for predicted in _predictions(inputs, their_inputs, others):
        found = _agrees(values[:: _step(values)], predicted, size)
        if found is not None:
            return found
    return None


def _range(values: Floats, others: Floats) -> float | None:
    """The range that the values fill and that does not hold the others."""
    if not all(bool(numpy.isfinite(each).all() and (each == numpy.round(each)).all()) for each in (values, others)):
        return None
    for size in RANGES:
        for low in (0.0, -size / 2):
            fills = low <= values.min() <= low + (1 - FULL) * size and low + FULL * size <= values.max() < low + size
            outside = float(((others < low) | (others >= low + size)).mean())
            if fills and len(numpy.unique(values)) >= DISTINCT and outside >= BEYOND:
                return size
    return None


def _step(rows: NDArray[numpy.generic]) -> int:
    return -(-len(rows) // MOST_ROWS)


def _predictions(inputs: Floats, their_inputs: Floats, others: Floats) -> Iterator[Floats]:
    """For rows of the first file, what the nearest rows of the other one have: by differences, and by directions."""
    rows, known = inputs[:: _step(inputs)], their_inputs[:: _step(their_inputs)]
    targets = others[:: _step(others)]
    center, scale = known.mean(0), known.std(0)
    moving = scale > 0
    if not moving.any():
        return
    x, y = ((each[:, moving] - center[moving]) for each in (rows, known))
    yield _nearest(x / scale[moving], y / scale[moving], targets)
    yield _nearest(_directions(x), _directions(y), targets)


def _directions(rows: Floats) -> Floats:
    lengths: Floats = numpy.maximum(numpy.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    return rows / lengths


def _nearest(rows: Floats, known: Floats, targets: Floats) -> Floats:
    far = (known**2).sum(1) - 2 * rows @ known.T
    nearest = numpy.argpartition(far, NEAREST, axis=1)[:, :NEAREST]
    return numpy.asarray(numpy.median(targets[nearest], axis=1), dtype=numpy.float64)


def _agrees(values: Floats, predicted: Floats, size: float) -> Wrapped | None:
    turns = numpy.round((values - predicted) / size)
    rest = (values - predicted) / size - turns
    low, same = turns < 0, turns == 0
    if low.sum() < FEWEST or low.mean() < BEYOND / 2 or same.mean() < BEYOND / 2 or low.sum() < 4 * (turns > 0).sum():
        return None
    for part in (low, same):
        if (abs(rest[part]) <= CLOSE).mean() < MOSTLY or (abs(rest[part]) >= BETWEEN).mean() > HARDLY:
            return None
        if abs(numpy.median(rest[part])) > EXACT:
            return None
    numbers, counts = numpy.unique(values[low], return_counts=True)
    if len(numbers) < DISTINCT or counts.max() > STUCK * low.sum():
        return None
    bits = 8 if size == RANGES[0] else 16
    return Wrapped(bits, float(low.mean()), float(same.mean()), float((abs(rest) >= BETWEEN).mean()))


def wrapped_among_rows(values: Floats, inputs: Floats) -> Seam | None:
    """Whether values wrapped around: of rows with similar inputs, or with inputs of similar ranks."""
    kept = numpy.linspace(0, len(values) - 1, min(len(values), MOST_ALONE)).astype(numpy.int64)
    values, rows = values[kept], inputs[kept]
    rows = rows[:, rows.std(0) > 0]
    if len(values) < LEAST or not rows.shape[1]:
        return None
    for low, size in ranges(values):
        for features in (rows, rows.argsort(0).argsort(0).astype(numpy.float64)):
            scaled = ((features - features.mean(0)) / features.std(0)).astype(numpy.float32)
            found = seam_between(values.repeat(SIMILAR), values[_similar(scaled)].ravel(), low, size)
            if found is not None:
                return found
    return None


def _similar(rows: NDArray[numpy.float32]) -> NDArray[numpy.int64]:
    lengths = (rows**2).sum(1)
    far = lengths[:, None] + lengths - 2 * rows @ rows.T
    numpy.fill_diagonal(far, numpy.inf)
    return numpy.argpartition(far, SIMILAR, axis=1)[:, :SIMILAR]


# -- tables --


def _among_rows(column: Values, table: Table, tables: list[Table]) -> Difference | None:
    """A column that wrapped around, by the rows of its own table."""
    if column.numbers is None or not _fills_a_range(column) or sum(map(_fills_a_range, table.columns)) > MOST_COLUMNS:
        return None
    for beside in list(_inputs(table, column.name, tables).values())[:MOST_INPUTS]:
        found = wrapped_among_rows(column.numbers, _features(beside))
        if found is not None:
            here = (f"{found.share:.1%} of the most similar rows lie on both sides of the end of the range, as of any "
                    "other number")  # fmt: skip
            return Difference("overflowed", column.name or "array", here, "", 0.0, f"{found.bits} bits")
    return None


def _fills_a_range(column: Values) -> bool:
    """Not a place in an array, nor an angle or a counter, which begin again by themselves."""
    values = column.numbers
    if values is None or column.name.endswith("]") or len(values) < LEAST or not numpy.isfinite(values).all():
        return False
    words = re.findall(r"[a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", column.name).lower())
    if any(map(CIRCULAR.fullmatch, words)):
        return False
    return any(not _counts_up(values, size) for _, size in ranges(values))


def _counts_up(values: Floats, size: float) -> bool:
    return bool((numpy.diff(values) % size < size / 2).mean() >= COUNTS_UP)


def wrapped_targets(tables: list[Table]) -> Iterator[tuple[Difference, Table, Table]]:
    """Columns that wrapped around, with their table and the one whose column did not."""
    for table in tables:
        for column in table.columns:
            for other in tables:
                found = _of_pair(column, table, other, tables)
                if found is not None:
                    yield found, table, other
                    break
            else:
                found = _among_rows(column, table, tables)
                if found is not None:
                    yield found, table, table


def _of_pair(column: Values, table: Table, other: Table, tables: list[Table]) -> Difference | None:
    if other is table or column.name not in other.names or kind_of(table.path) != kind_of(other.path):
        return None
    values, others = column.numbers, other.column(column.name).numbers
    if values is None or others is None or len(values) < LEAST or _range(values, others) is None:
        return None
    beside, there = (_inputs(each, column.name, tables) for each in (table, other))
    for key in [key for key in beside if key in there][:MOST_INPUTS]:
        inputs, their_inputs = (_features(each[key]) for each in (beside, there))
        if inputs.shape[1:] != their_inputs.shape[1:] or not inputs.shape[1]:
            continue
        found = wrapped(values, inputs, others, their_inputs)
        if found is not None:
            here = (
                f"values from {values.min():g} to {values.max():g}, {found.low:.0%} of them too low by {2**found.bits}"
            )
            return Difference("wrapped beside", column.name or "array", here, f"values up to {others.max():g}",
                              0.0, f"{found.bits} bits")  # fmt: skip
    return None


def _inputs(table: Table, name: str, tables: list[Table]) -> dict[tuple[str, str], NDArray[numpy.generic]]:
    """What lies beside a column: the other columns of its table, and arrays of as many rows in its folder."""
    numbers = [c.numbers for c in table.columns if c.numbers is not None and c.name != name]
    columns = [each for each in numbers if numpy.isfinite(each).all()]
    label = ", ".join(column.name for column in table.columns)
    found: dict[tuple[str, str], NDArray[numpy.generic]] = {("", label): numpy.stack(columns, 1)} if columns else {}
    return found | {(file, name): array for file, _, array in arrays_beside(table, tables)}


def _features(array: NDArray[numpy.generic]) -> Floats:
    """[rows, features], some of them if there are many."""
    flat = array.reshape(len(array), -1)
    kept = flat[:, :: max(1, -(-flat.shape[1] // MOST_FEATURES))]
    numbers = kept.astype(numpy.float64) if kept.dtype.kind in "fiub" else kept[:, :0].astype(numpy.float64)
    return numbers if numpy.isfinite(numbers).all() else numbers[:, :0]
