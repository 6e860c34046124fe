"""Pictures of two files: are those of one turned, mirrored or with their channels in another order?"""

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy
from numpy.typing import NDArray

from trueloop.measure.correlation import correlation_of_arrays

__all__ = ["Turned", "turned"]

LEAST: Final = 50  # pictures
MOST: Final = 2000
SMALLEST: Final = 6  # pixels along each side
ALIKE: Final = 0.9  # correlation of the two mean pictures after turning
DIFFERENT: Final = 0.5  # and before

Floats = NDArray[numpy.float64]


class Turned(NamedTuple):
    how: str
    before: float  # correlation of the mean pictures
    after: float


_TURNS: Final[dict[str, Callable[[Floats], Floats]]] = {
    "transposed": lambda picture: picture.swapaxes(0, 1),
    "mirrored left to right": lambda picture: picture[:, ::-1],
    "upside down": lambda picture: picture[::-1],
    "turned by 180 degrees": lambda picture: picture[::-1, ::-1],
    "turned by 90 degrees": lambda picture: picture.swapaxes(0, 1)[::-1],
    "turned by 270 degrees": lambda picture: picture.swapaxes(0, 1)[:, ::-1],
    "inverted (dark for bright)": lambda picture: -picture,
}


def turned(first: NDArray[numpy.generic], second: NDArray[numpy.generic]) -> Turned | None:
    """[N, H, W], [N, C, H, W] or [N, H, W, C] of both."""
    if first.shape[1:] != second.shape[1:] or min(len(first), len(second)) < LEAST:
        return None
    a, b = _mean(first), _mean(second)
    if a is None or b is None or min(a.shape[:2]) < SMALLEST or not (a.std() and b.std()):
        return None
    if a.shape[2] == 3:
        colors = correlation_of_arrays(a.mean((0, 1)), b.mean((0, 1)))
        if colors < 0 and _channels_apart(a, b):
            return Turned("with their channels in reverse order", colors, -colors)
    before = correlation_of_arrays(a.mean(2), b.mean(2))
    if before >= DIFFERENT:
        return None
    pictures = {name: turn(a.mean(2)) for name, turn in _TURNS.items()}
    after = {name: correlation_of_arrays(p, b.mean(2)) for name, p in pictures.items() if p.shape == b.shape[:2]}
    best = max(after, key=lambda name: after[name])
    return Turned(best, before, after[best]) if after[best] >= ALIKE else None


def _channels_apart(a: Floats, b: Floats) -> bool:
    """The mean colors of one file, in the reverse order, are those of the other."""
    ours, theirs = a.mean((0, 1)), b.mean((0, 1))
    spread = abs(ours[0] - ours[2])
    return spread > 0 and bool(abs(theirs[0] - ours[2]) < 0.3 * spread and abs(theirs[2] - ours[0]) < 0.3 * spread)


def _mean(pictures: NDArray[numpy.generic]) -> Floats | None:
    """[H, W, C]"""
    mean: Floats = pictures[:MOST].astype(numpy.float64).mean(0)
    if mean.ndim == 2:
        return mean[..., None]
    if mean.ndim != 3:
        return None
    return mean if mean.shape[2] <= 4 else mean.transpose(1, 2, 0) if mean.shape[0] <= 4 else None
