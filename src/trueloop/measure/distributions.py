"""How far two samples are apart."""

import numpy
from numpy.typing import NDArray

__all__ = ["distance"]

Floats = NDArray[numpy.float64]


def distance(a: Floats, b: Floats) -> float:
    """Kolmogorov-Smirnov: the largest difference of the two cumulative distributions."""
    points = numpy.concatenate([a, b])
    return float(numpy.abs(_below(a, points) - _below(b, points)).max())


def _below(values: Floats, points: Floats) -> Floats:
    return numpy.searchsorted(numpy.sort(values), points, side="right") / len(values)
