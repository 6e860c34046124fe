"""Lengths of padded sequences that are stored beside them: do they say where the content of each row ends?

Padding shows: one value that fills the ends of rows and comes nowhere before. So the end of each row is known, and a
column of lengths is right, or off by a constant (an end token), or in a different unit.
"""

import re
from typing import Any, Final, NamedTuple

import numpy
from numpy.typing import NDArray

from trueloop.measure.tables import Table

__all__ = ["PADDED", "SHORTEST", "Padded", "WrongLengths", "ends_of_rows", "padded_rows", "wrong_lengths"]

LEAST: Final = 40  # rows
SHORTEST: Final = 8  # positions
DISTINCT: Final = 6  # lengths
COARSE: Final = 3  # lengths in a unit that is far longer than a position: each is a step of the ends of the rows
PADDED: Final = 0.3  # of the rows end in padding
RARELY: Final = 0.001  # of the content is the value of the padding
SELDOM: Final = 0.2  # the same, of rows whose last position is mostly another value
HALF: Final = 0.5  # of the rows end exactly at a multiple of their length, and none of them later
MULTIPLES: Final = (2, 3, 4, 5, 6, 8, 10, 12, 24, 60)
CALLED: Final = re.compile(
    r"(^|[^a-z])(len|lens|length|lengths|seq_?len|n_?frames|n_?tokens|n_?steps|durations?)([^a-z]|$)"
)
NEARLY_ALL: Final = 0.98  # of the rows
MOSTLY: Final = 0.9
DIFFERENT: Final = 1.2  # factor of two units
FEW: Final = 0.05  # of the rows have the right length by chance

Floats = NDArray[numpy.float64]
Ends = NDArray[numpy.int64]


class WrongLengths(NamedTuple):
    column: str
    array: str
    factor: float  # the end of a row is this multiple of its length; 0 if it is no multiple
    beyond: float  # share of the rows whose length points into the padding
    length: float  # in the median
    end: float  # in the median
    positions: int


def wrong_lengths(lengths: Table, arrays: Table) -> WrongLengths | None:
    """Of a column that is called a length; None if any such column is right for the array."""
    if lengths.rows != arrays.rows or lengths.rows < LEAST:
        return None
    called = bool(CALLED.search(_file(lengths.path))) and len(lengths.columns) == 1
    columns = [(c.name, c.numbers) for c in lengths.columns if c.numbers is not None]
    columns = [(name, values) for name, values in columns if called or CALLED.search(name.lower())]
    for name, array in arrays.arrays:
        ends = ends_of_rows(array, SELDOM) if columns else None
        if ends is None:
            continue
        compare = _multiple if ends_of_rows(array) is None else _wrong
        found = [compare(column, name, values, ends, array.shape[1]) for column, values in columns]
        wrong = [each for each in found if each is not None]
        if wrong and len(wrong) == len(found):
            return wrong[0]
    return None


class Padded(NamedTuple):
    ends: Ends  # of the content of each row; 0: it has none
    share: float  # of the rows end in padding
    alike: float  # of the content looks like padding


def padded_rows(array: NDArray[Any]) -> Padded:
    """Rows of [rows, positions, ...]. What most of them end with is the padding: a number, or a vector."""
    rows = numpy.asarray(array).reshape(len(array), array.shape[1], -1)
    values, counts = numpy.unique(rows[:, -1], axis=0, return_counts=True)
    content = (rows != values[counts.argmax()]).any(2)
    ends = numpy.where(content.any(1), rows.shape[1] - content[:, ::-1].argmax(1), 0).astype(numpy.int64)
    inside = numpy.arange(rows.shape[1]) < ends[:, None]
    alike = float((inside & ~content).sum() / max(1, inside.sum()))
    return Padded(ends, float((ends < rows.shape[1]).mean()), alike)


def ends_of_rows(array: NDArray[Any], alike: float = RARELY) -> Ends | None:
    """Where the content of each row of [rows, positions, ...] ends; None if the rows are not padded at their ends.
    `alike`: the share of the content that may look like padding."""
    if array.ndim not in (2, 3) or array.shape[1] < SHORTEST or array.dtype.kind not in "fiu" or len(array) < LEAST:
        return None
    found = padded_rows(array)
    if found.share < PADDED or len(numpy.unique(found.ends)) < DISTINCT or found.ends.min() < 1:
        return None
    return found.ends if found.alike <= alike else None


def _wrong(column: str, array: str, values: Floats, ends: Ends, positions: int) -> WrongLengths | None:
    if not numpy.isfinite(values).all() or values.min() < 0:
        return None
    if len(numpy.unique(values)) < DISTINCT:
        return _coarse(column, array, values, ends, positions)
    apart = values - ends
    steps, counts = numpy.unique(apart, return_counts=True)
    constant = counts.max() / len(apart)
    if constant > FEW + 1 / DISTINCT and abs(steps[counts.argmax()]) <= 2:  # right; or an end token more or less
        return None
    median = float(numpy.median(values)), float(numpy.median(ends))
    free = (values > 0) & (values != positions)  # lengths that were cut at the width of the array say less
    if free.sum() < LEAST:
        return None
    factor = float(numpy.median(ends[free] / values[free]))
    unit = numpy.abs(ends - factor * values) <= max(1.0, factor)
    if max(factor, 1 / factor) >= DIFFERENT and unit[free].mean() >= NEARLY_ALL:
        return WrongLengths(column, array, factor, float((apart > 0).mean()), *median, positions)
    beyond = float((apart > 0).mean())
    related = float(numpy.corrcoef(values, ends)[0, 1]) > 0.5  # lengths of these rows, but of something else in them
    if beyond >= MOSTLY and related and values.max() <= positions:
        return WrongLengths(column, array, 0.0, beyond, *median, positions)
    return None


def _coarse(column: str, array: str, values: Floats, ends: Ends, positions: int) -> WrongLengths | None:
    """A few whole numbers that are the ends of the rows, divided and rounded up, down or to the nearest. They begin
    where the ends do: numbers of a class or of a bin count from 0."""
    known, counts = numpy.unique(values, return_counts=True)
    common = known[counts >= FEW * len(values)]
    if len(common) < COARSE or values.min() < 2 or (values != numpy.round(values)).any() or values.max() > positions:
        return None
    factors = float(numpy.median(ends / values)) * numpy.linspace(0.6, 1.4, 400)
    whole = numpy.round(factors)
    factors = numpy.unique(numpy.concatenate([factors, whole[whole >= 2]]))
    for rounded in (numpy.ceil, numpy.round, numpy.floor):
        fits = [float((rounded(ends / factor) == values).mean()) for factor in factors]
        best = int(numpy.argmax(fits))
        if fits[best] >= NEARLY_ALL and factors[best] >= DIFFERENT:
            median = float(numpy.median(values)), float(numpy.median(ends))
            return WrongLengths(column, array, float(factors[best]), 0.0, *median, positions)
    return None


def _multiple(column: str, array: str, values: Floats, ends: Ends, positions: int) -> WrongLengths | None:
    """Rows may end in content that looks like padding (no rain, no flow), so an end is not after the true one."""
    free = (values > 0) & (values != positions)
    if not numpy.isfinite(values).all() or values.min() < 0 or free.sum() < LEAST:
        return None
    lengths, last = values[free], ends[free]
    if len(numpy.unique(lengths)) < DISTINCT or (last <= lengths).mean() > FEW:
        return None
    for factor in MULTIPLES:
        if (last <= factor * lengths).mean() >= NEARLY_ALL and (last == factor * lengths).mean() >= HALF:
            median = float(numpy.median(values)), float(numpy.median(ends))
            return WrongLengths(column, array, float(factor), 0.0, *median, positions)
    return None


def _file(path: str) -> str:
    return re.split(r"[\\/]", path)[-1].rpartition(".")[0].lower()
