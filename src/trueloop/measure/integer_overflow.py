"""Signals and images whose numbers left the range of their integer type and came back at its other end.

In a smooth array neighbors then differ by nearly the whole range, and hardly any by half of it. A rough one fills the
range evenly up to both ends, without the pile of equal numbers that clipping leaves there. An angle and a counter wrap
too: so the same array of another file, which does not, has to contradict it; or the signal swings around 0.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy
from numpy.typing import NDArray

from trueloop.measure.splits import kind_of
from trueloop.measure.table_differences import Difference
from trueloop.measure.tables import Table

__all__ = ["overflows"]

MOST_ROWS: Final = 256
SHORTEST: Final = 16  # numbers along the axis
CHANNELS: Final = 4
WHOLE: Final = 0.98  # of the range is used
FAR: Final = 0.75  # of the range, between neighbors
GAP: Final = (0.3, 0.7)  # of the range: between neighbors, in a smooth array nothing
EMPTY: Final = 0.15  # of the far jumps
LEAST_JUMPS: Final = 30
RARE: Final = 3e-4
ROWS: Final = 0.02  # that have a jump
DISTINCT: Final = 10  # numbers beside jumps
EQUAL: Final = 0.4  # of the numbers beside jumps: with more it is a level, or a clipped signal
INSIDE: Final = 0.2  # of the numbers, in the middle half of the range
NONE: Final = 0.02  # of the jumps of one file, in the other
OFTEN: Final = 0.02  # in a rough array
EDGE: Final = 1 / 32  # of the range
FILLED: Final = 0.4  # of the mean density
LEVEL: Final = 1.6  # ratio of both ends
RELATED: Final = 0.2  # correlation of neighbors that a rough array has lost
CENTERED: Final = 0.2  # of the range
BOUNDED: Final = 1.5  # ranges: farther away from 0 it is a counter or an angle
MOSTLY: Final = 0.9

Numbers = NDArray[numpy.float64]


class Overflow(NamedTuple):
    bits: int
    jumps: float  # share of neighbors that differ by nearly the whole range
    elsewhere: float  # the same in the other array
    related: float  # correlation of neighbors
    related_elsewhere: float


class _Facts(NamedTuple):
    bits: int
    jumps: float
    related: float
    smooth: bool  # but for jumps over the whole range
    rough: bool  # fills the range evenly
    swings: bool  # around 0


def overflows(tables: list[Table]) -> Iterator[tuple[Difference, Table, Table]]:
    """Arrays that wrapped around, with their table and that of an array of the same name that did not, or their own."""
    arrays = [(table, name, array) for table in tables for name, array in table.arrays]
    for table, name, array in arrays:
        kind = kind_of(table.path), kind_of(name)
        for other, label, there in arrays:
            alike = (kind_of(other.path), kind_of(label)) == kind
            found = overflowed(array, there) if alike and there is not array else None
            if found is not None:
                yield _difference(found, name, f"{found.elsewhere:.2%}"), table, other
                break
        else:
            found = overflowed_alone(array)
            if found is not None:
                yield _difference(found, name, ""), table, table


def _difference(found: Overflow, name: str, elsewhere: str) -> Difference:
    here = f"{found.jumps:.2%} of the neighbors differ by nearly the whole range"
    return Difference("overflowed", name or "array", here, elsewhere, 0.0, f"{found.bits} bits")


def overflowed(array: NDArray[numpy.generic], other: NDArray[numpy.generic]) -> Overflow | None:
    """Whether the first of two arrays of one kind wrapped around, and the other did not."""
    if array.dtype != other.dtype or array.shape[1:] != other.shape[1:]:
        return None
    facts = _facts(array)
    if facts is None or not (facts.smooth or facts.rough):
        return None
    there = _jumps(other)
    if there is None or there[0] > NONE * facts.jumps or facts.jumps * other.size < LEAST_JUMPS:
        return None
    if not facts.smooth and there[1] < facts.related + RELATED:
        return None
    return Overflow(facts.bits, facts.jumps, there[0], facts.related, there[1])


def overflowed_alone(array: NDArray[numpy.generic]) -> Overflow | None:
    """Whether a smooth signal that swings around 0 wrapped around."""
    facts = _facts(array)
    if facts is None or not (facts.smooth and facts.swings):
        return None
    return Overflow(facts.bits, facts.jumps, 0.0, facts.related, 0.0)


def _lines(array: NDArray[numpy.generic]) -> Numbers | None:
    """Rows of neighbors along time, or along the lines of pictures."""
    if array.dtype.kind not in "iu" or array.dtype.itemsize > 2 or array.ndim < 2 or len(array) < 1:
        return None
    rows = array[:: -(-len(array) // MOST_ROWS)]
    if rows.ndim > 2 and rows.shape[-1] <= CHANNELS:
        rows = rows.swapaxes(-1, -2)
    if rows.shape[-1] < SHORTEST:
        return None
    return rows.reshape(-1, rows.shape[-1]).astype(numpy.float64)


def _jumps(array: NDArray[numpy.generic]) -> tuple[float, float] | None:
    """The share of neighbors that differ by nearly the whole range, and the correlation of neighbors."""
    lines = _lines(array)
    if lines is None:
        return None
    far = numpy.abs(numpy.diff(lines, axis=1)) >= FAR * 2.0 ** (8 * array.dtype.itemsize)
    return float(far.mean()), _related(lines)


def _facts(array: NDArray[numpy.generic]) -> _Facts | None:
    lines = _lines(array)
    bits = 8 * array.dtype.itemsize
    size = 2.0**bits
    if lines is None or lines.max() - lines.min() < WHOLE * size:
        return None
    steps = numpy.abs(numpy.diff(lines, axis=1))
    far = steps >= FAR * size
    jumps = float(far.mean())
    if far.sum() < LEAST_JUMPS or far.any(1).mean() < ROWS:
        return None
    between = float(((steps >= GAP[0] * size) & (steps < GAP[1] * size)).mean())
    beside = numpy.concatenate([lines[:, :-1][far], lines[:, 1:][far]])
    counts = numpy.unique(beside, return_counts=True)[1]
    varied = len(counts) >= DISTINCT and counts.max() <= EQUAL * len(beside)
    low, high = lines.min() + size / 4, lines.max() - size / 4
    inside = float(((lines > low) & (lines < high)).mean())
    smooth = jumps >= RARE and between <= EMPTY * jumps and varied and inside >= INSIDE
    rough = jumps >= OFTEN and varied and _fills(lines, size)
    swings = array.dtype.kind == "i" and _swings(lines[far.any(1)], size)
    return _Facts(bits, jumps, _related(lines), smooth, rough, swings)


def _fills(lines: Numbers, size: float) -> bool:
    """Both ends of the range are as full as the rest of it, and no single number stands out there."""
    low, high = lines.min(), lines.max()
    ends = [float((lines < low + EDGE * size).mean()), float((lines > high - EDGE * size).mean())]
    if min(ends) < FILLED * EDGE or max(ends) > LEVEL * min(ends):
        return False
    extreme = int((lines == low).sum() + (lines == high).sum())
    expected = sum(ends) * lines.size / (EDGE * size)
    return extreme <= 3 * expected + 10


def _swings(lines: Numbers, size: float) -> bool:
    whole = numpy.unwrap(lines, axis=1, period=size)
    whole -= size * numpy.round(whole.mean(1, keepdims=True) / size)  # a row may begin beyond the range
    center = numpy.abs(whole.mean(1)) <= CENTERED * size
    return bool((center & (numpy.abs(whole).max(1) <= BOUNDED * size)).mean() >= MOSTLY)


def _related(lines: Numbers) -> float:
    """Correlation of neighbors, after the mean of each row."""
    centered = lines - lines.mean(1, keepdims=True)
    norm = float((centered**2).sum())
    return float((centered[:, :-1] * centered[:, 1:]).sum()) / norm if norm > 0 else 0.0
