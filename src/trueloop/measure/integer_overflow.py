"""Signals and images whose numbers left the range of an integer type and came back at its other end.

Neighbors then pass the end of the range as they pass any other number; or a rough array fills the range evenly up to
both ends, without the pile of equal numbers that clipping leaves there. An angle and a counter wrap too: so the same
array of another file, which does not, has to contradict it; or the signal has an origin: it swings around 0, or begins
low and leaves the range at its upper end only.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy
from numpy.typing import NDArray

from trueloop.measure.range_seam import Seam, ranges, reaches_both_ends, seam_between
from trueloop.measure.splits import kind_of
from trueloop.measure.table_differences import Difference
from trueloop.measure.tables import Table

__all__ = ["Overflow", "overflowed", "overflowed_alone", "overflows"]

MOST_ROWS: Final = 256
SHORTEST: Final = 16  # numbers along the axis
COLORS: Final = 4  # of a picture, in its last dimension
CHANNELS: Final = 16  # of a signal
RELATED: Final = 0.2  # correlation of neighbors that a rough array has lost
NOWHERE: Final = 0.02  # of the pairs on both sides of the seam in one file, in the other
LEAST: Final = 30  # rows that leave the range
CENTERED: Final = 0.5  # mean cosine of the rows' means, as angles of a circle that is the range
NEVER: Final = 0.04  # of the rows that leave the range at its upper end leave it at the lower one
MARGIN: Final = 1 / 16  # of the range: farther out than this
ORIGIN: Final = 0.6  # of the range
MOSTLY: Final = 0.95  # of the rows begin in such a part of it

Numbers = NDArray[numpy.float64]


class Overflow(NamedTuple):
    bits: int
    share: float  # of the neighbors lie on both sides of the end of the range; 0: rough
    related: float  # correlation of neighbors
    related_elsewhere: float


def overflows(tables: list[Table]) -> Iterator[tuple[Difference, Table, Table]]:
    """Arrays that wrapped around, with their table and that of an array of the same name that did not, or their own."""
    arrays = [(table, name, array) for table in tables for name, array in table.arrays]
    for table, name, array in arrays:
        kind = kind_of(table.path), kind_of(name)
        for other, label, there in arrays:
            alike = (kind_of(other.path), kind_of(label)) == kind
            found = overflowed(array, there) if alike and there is not array else None
            if found is not None:
                there_too = f"correlation {found.related_elsewhere:.2f}"
                yield _difference(found, name, there_too), table, other
                break
        else:
            found = overflowed_alone(array)
            if found is not None:
                yield _difference(found, name, ""), table, table


def _difference(found: Overflow, name: str, elsewhere: str) -> Difference:
    here = f"neighbors correlate {found.related:.2f}"
    if found.share:
        here += f", and {found.share:.2%} of them lie on both sides of the end of the range, as of any other number"
    return Difference("overflowed", name or "array", here, elsewhere, 0.0, f"{found.bits} bits")


def overflowed(array: NDArray[numpy.generic], other: NDArray[numpy.generic]) -> Overflow | None:
    """Whether the first of two arrays of one kind wrapped around, and the other did not."""
    if array.ndim != other.ndim or array.shape[2:] != other.shape[2:]:
        return None
    for lines, there in zip(_channels(array), _channels(other), strict=False):
        for low, size in ranges(lines) if lines.size and there.size else ():
            related = _related(lines), _related(there)
            seam = _seam(lines, low, size)
            if seam is not None and not _crosses(there, low, size, seam):
                return Overflow(seam.bits, seam.share, *related)
            rough = reaches_both_ends(lines, low, size) and related[1] >= related[0] + RELATED
            if rough and not reaches_both_ends(there, low, size):
                return Overflow(int(numpy.log2(size)), 0.0, *related)
    return None


def overflowed_alone(array: NDArray[numpy.generic]) -> Overflow | None:
    """Whether a signal that has an origin wrapped around."""
    for lines in _channels(array) if array.ndim == 2 or _is_signal(array) else ():
        for low, size in ranges(lines) if lines.size else ():
            seam = _seam(lines, low, size)
            if seam is not None and (_swings(lines, size) if low < 0 else _begins_low(lines, size)):
                return Overflow(seam.bits, seam.share, _related(lines), 0.0)
    return None


def _is_signal(array: NDArray[numpy.generic]) -> bool:
    """[rows, channels, time] or [rows, time, channels]: not pictures."""
    return array.ndim == 3 and min(array.shape[1:]) <= CHANNELS


def _channels(array: NDArray[numpy.generic]) -> Iterator[Numbers]:
    """Of each channel of a signal, or of all pictures: rows of neighbors along time, or along the lines."""
    if array.dtype.kind not in "fiu" or array.ndim < 2 or not array.size:
        return
    rows = array[:: -(-len(array) // MOST_ROWS)]
    if _is_signal(array):
        rows = rows if array.shape[1] <= array.shape[2] else rows.swapaxes(1, 2)
        parts = [rows[:, index] for index in range(rows.shape[1])]
    else:
        parts = [rows.swapaxes(-1, -2) if rows.ndim > 2 and rows.shape[-1] <= COLORS else rows]
    for part in parts:
        if part.shape[-1] >= SHORTEST:
            lines = part.reshape(-1, part.shape[-1]).astype(numpy.float64)
            yield lines if bool(numpy.isfinite(lines).all()) else lines[:0]


def _seam(lines: Numbers, low: float, size: float) -> Seam | None:
    return seam_between(lines[:, :-1].ravel(), lines[:, 1:].ravel(), low, size)


def _crosses(lines: Numbers, low: float, size: float, seam: Seam) -> bool:
    """Whether neighbors of another array lie on both sides too, or too few of them would."""
    if lines.min() < low or lines.max() >= low + size:
        return False
    far = numpy.abs(numpy.diff(lines, axis=1)) > size * 3 / 4
    return bool(far.mean() > NOWHERE * seam.share or seam.share * far.size < LEAST)


def _leaves(whole: Numbers, low: float, size: float) -> NDArray[numpy.bool_]:
    return numpy.asarray(((whole < low) | (whole >= low + size)).any(1))


def _swings(lines: Numbers, size: float) -> bool:
    """Around 0: the mean of each row is near 0, or near a multiple of the range if the row began beyond it."""
    whole = numpy.unwrap(lines, axis=1, period=size)
    means = whole.mean(1)[_leaves(whole, -size / 2, size)]
    return len(means) >= LEAST and bool(numpy.cos(2 * numpy.pi * means / size).mean() >= CENTERED)


def _begins_low(lines: Numbers, size: float) -> bool:
    """From one part of the range, and over its upper end. A counter and the angle of a shaft begin anywhere."""
    whole = numpy.unwrap(lines, axis=1, period=size)
    up, down = (whole.max(1) >= (1 + MARGIN) * size).sum(), (whole.min(1) < -MARGIN * size).sum()
    low, high = numpy.quantile(lines[:, 0], ((1 - MOSTLY) / 2, (1 + MOSTLY) / 2))
    returns = (numpy.diff(whole, axis=1) < 0).any(1).mean() > NEVER
    return bool(up >= LEAST and down <= NEVER * up and high - low <= ORIGIN * size and returns)


def _related(lines: Numbers) -> float:
    """Correlation of neighbors, after the mean of each row."""
    centered = lines - lines.mean(1, keepdims=True)
    norm = float((centered**2).sum())
    return float((centered[:, :-1] * centered[:, 1:]).sum()) / norm if norm > 0 else 0.0
