"""Seconds since 1970 that went through float32: all are multiples of 128, and neighbors have become equal.

Days are multiples of 128 seconds too (86,400 = 675 * 128), but of more than that: the largest number that divides all
times is then not the step of float32.
"""

from typing import Final, NamedTuple

import numpy
from numpy.typing import NDArray

__all__ = ["RoundedTimes", "rounded_times"]

LEAST: Final = 200  # rows
DISTINCT: Final = 40  # times
EPOCHS: Final = ((1e9, 2.2e9), (1e12, 2.2e12))  # seconds and milliseconds since 1970, of 2001 to 2039
EQUAL: Final = 0.05  # of the neighbors


class RoundedTimes(NamedTuple):
    step: int
    equal: float  # share of the rows that have the time of the row before


def rounded_times(values: NDArray[numpy.float64]) -> RoundedTimes | None:
    if len(values) < LEAST or not numpy.isfinite(values).all():
        return None
    low, high = float(values.min()), float(values.max())
    if not any(first <= low and high < last for first, last in EPOCHS) or bool((values % 1 != 0).any()):
        return None
    step = int(numpy.spacing(numpy.float32(low)))
    times = numpy.unique(values).astype(numpy.int64)
    if len(times) < DISTINCT or int(numpy.gcd.reduce(times)) != step:
        return None
    equal = float((numpy.diff(values) == 0).mean())
    return RoundedTimes(step, equal) if equal >= EQUAL else None
