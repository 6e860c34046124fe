"""The correlation of two series of numbers; 0 where one of them does not vary. And their ranks."""

import numpy
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["correlation", "correlation_of_arrays", "ranks"]


def correlation(one: Tensor, other: Tensor) -> float:
    a, b = (each.reshape(-1) - each.mean() for each in (one, other))
    product, norm = float(a @ b), float(a.norm() * b.norm())
    return product / norm if norm > 0 else 0.0


def correlation_of_arrays(one: NDArray[numpy.float64], other: NDArray[numpy.float64]) -> float:
    return float(numpy.corrcoef(one.ravel(), other.ravel())[0, 1]) if one.std() and other.std() else 0.0


def ranks(values: NDArray[numpy.float64]) -> NDArray[numpy.float64]:
    """Equal values share the mean of their ranks."""
    _, places, counts = numpy.unique(values, return_inverse=True, return_counts=True)
    found: NDArray[numpy.float64] = (numpy.cumsum(counts) - (counts - 1) / 2)[places]
    return found
