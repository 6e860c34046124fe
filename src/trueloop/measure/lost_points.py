"""A column of measured values, some of which lost their decimal point: 12.8 became 128, and 0.31 became 31."""

from typing import Final, NamedTuple

import numpy
from numpy.typing import NDArray

from trueloop.measure.distributions import distance

__all__ = ["LostPoints", "lost_points"]

LEAST: Final = 200  # values
FEWEST: Final = 15  # of them without a point
DISTINCT: Final = 8
MOST: Final = 0.3  # of the values
MOST_DECIMALS: Final = 6
EXACT: Final = 1e-6
FRACTIONS: Final = 0.3  # of the values need the last decimal
ALL: Final = 0.95  # of the large values are explained
NEAR: Final = 0.1  # distance of two distributions (Kolmogorov-Smirnov)

Floats = NDArray[numpy.float64]


class LostPoints(NamedTuple):
    share: float
    decimals: int
    usual: tuple[float, float]  # the range of the others
    large: tuple[float, float]


def lost_points(values: Floats) -> LostPoints | None:
    """If the large values have no decimals and, divided by 10 for each decimal of the others, their distribution."""
    if len(values) < LEAST or values.min() < 0:
        return None
    whole = values == numpy.round(values)
    usual = values[~whole]
    if len(usual) < (1 - MOST) * len(values) or not (decimals := _decimals(usual)):
        return None
    low, high = float(usual.min()), float(usual.max())
    large = values[whole & (values > high)]
    if len(large) < FEWEST or len(numpy.unique(large)) < DISTINCT or low * 10**decimals <= high:
        return None
    moved = large / 10**decimals
    inside = moved[(moved >= low) & (moved <= high)]
    if len(inside) < ALL * len(large) or distance(moved, usual) > NEAR + 1.4 / len(large) ** 0.5:
        return None
    return LostPoints(len(large) / len(values), decimals, (low, high), (float(large.min()), float(large.max())))


def _decimals(values: Floats) -> int:
    """As many as all of the values have at most; 0 if that is not a number of decimals."""
    for decimals in range(1, MOST_DECIMALS + 1):
        scaled = values * 10**decimals
        if bool((numpy.abs(scaled - numpy.round(scaled)) <= EXACT * 10**decimals).all()):
            last = numpy.round(scaled) % 10 != 0
            return decimals if last.mean() >= FRACTIONS else 0
    return 0
