"""Whether numbers pass the end of an integer's range as they pass any other number: they wrapped around.

Neighbors, in time or by everything else that is known of a row, are near one another. If numbers stop at the end of
their range, none of them has a neighbor at the other end. If they left the range and came back at its other end, as
many neighbors lie on both sides of that seam as on both sides of the numbers beside it.
"""

from collections.abc import Iterator
from itertools import product
from typing import Final, NamedTuple

import numpy
from numpy.typing import NDArray

__all__ = ["Seam", "ranges", "reaches_both_ends", "seam_between"]

RANGES: Final = (2.0**8, 2.0**16, 2.0**32)
REACHED: Final = 0.97  # of the range
ZONES: Final = 16  # of the range
SHORT: Final = 1 / 4  # of the range: neighbors that are nearer are on two sides of a number
LEAST: Final = 30  # neighbors on both sides of the seam
AS_OFTEN: Final = (0.5, 2.0)  # as beside it
NO_LONGER: Final = 2.5  # times the distance of neighbors on both sides of other numbers
ELSEWHERE: Final = (3, 5, 11, 13)  # the zones that begin with these numbers
MORE: Final = 0.04  # share of the neighbors of an end that are near on its side, and beyond the seam, over chance
CERTAIN: Final = 6.0  # standard errors
NEARLY_ALL: Final = 0.8  # of the neighbors of an end are near: hardly any is at the other end by chance
EDGE: Final = 4  # parts of the first and the last zone
FILLED: Final = (0.45, 2.2)  # density of the outermost part, over that of its zone: no gap, and no pile by clipping
INSIDE: Final = 0.2  # of the numbers, in the middle half of the range
DISTINCT: Final = 20

Floats = NDArray[numpy.float64]


class Seam(NamedTuple):
    bits: int
    share: float  # of the neighbors lie on both sides of the seam


def ranges(values: Floats) -> Iterator[tuple[float, float]]:
    """The lowest number and the size of each range of integers that the values reach from end to end."""
    lowest, highest = float(values.min()), float(values.max())
    for size, share in product(RANGES, (0.0, 0.5)):
        low = 0.0 - share * size
        full = low <= lowest and highest < low + size and highest - lowest >= REACHED * size
        if full and bool((values == numpy.round(values)).all()):
            yield low, size


def seam_between(values: Floats, neighbors: Floats, low: float, size: float) -> Seam | None:
    """`values` and a neighbor of each, all of them inside of the range."""
    a, b = ((each - low) / size for each in (values, neighbors))  # 0 to 1
    apart = (b - a + 0.5) % 1 - 0.5
    near = numpy.abs(apart) < SHORT
    steps = numpy.abs(apart[near])
    before, seam, after = (_passed(a[near], apart[near], cut / ZONES) for cut in (-1, 0, 1))
    often, beside = int(seam.sum()), (int(before.sum()), int(after.sum()))
    if often < LEAST or not AS_OFTEN[0] * min(beside) <= often <= AS_OFTEN[1] * max(beside):
        return None
    elsewhere = numpy.concatenate([steps[_passed(a[near], apart[near], cut / ZONES)] for cut in ELSEWHERE])
    if not len(elsewhere) or numpy.median(steps[seam]) > NO_LONGER * numpy.median(elsewhere):
        return None
    if not _tells_the_half(a, b) or not _nearer_than_by_chance(a, b, apart) or not _reaches_its_ends(a, size):
        return None
    if ((a > 0.25) & (a < 0.75)).mean() < INSIDE:
        return None
    return Seam(int(numpy.log2(size)), often / len(a))


def reaches_both_ends(values: Floats, low: float, size: float) -> bool:
    """Whether numbers fill a range up to both of its ends, without a pile of equal ones there."""
    inside = values.min() >= low and values.max() < low + size
    return bool(inside) and _reaches_its_ends((values.ravel() - low) / size, size)


def _passed(a: Floats, apart: Floats, cut: float) -> NDArray[numpy.bool_]:
    """Which of the pairs lie on both sides of a number."""
    from_cut = (a - cut + 0.5) % 1 - 0.5
    return numpy.asarray((from_cut < 0) != (from_cut + apart < 0))


def _tells_the_half(a: Floats, b: Floats) -> bool:
    """Whether numbers in the middle of a half have more neighbors in it than by chance: it is not their amounts that
    are alike, whatever their signs."""
    middle = numpy.abs(a % 0.5 - 0.25) < 1 / 8
    upper = a[middle] >= 0.5
    chance = numpy.where(upper, (b >= 0.5).mean(), (b < 0.5).mean()).mean() if len(upper) else 1.0
    share = (upper == (b[middle] >= 0.5)).mean() if len(upper) else 0.0
    return bool(share - chance >= max(MORE, CERTAIN * (chance * (1 - chance) / max(1, len(upper))) ** 0.5))


def _nearer_than_by_chance(a: Floats, b: Floats, apart: Floats) -> bool:
    """Whether numbers at an end have more neighbors on their side, and also more beyond the seam, than pairs in any
    order: what only tends to be alike has fewer at the other end. Or whether nearly all neighbors are near."""
    known = numpy.sort(b)
    low, high = a < 1 / ZONES, a >= 1 - 1 / ZONES
    if min(low.sum(), high.sum()) < LEAST:
        return False
    return any(_is_crowded(a[end], apart[end], known) for end in (low, high, low | high))


def _is_crowded(a: Floats, apart: Floats, known: Floats) -> bool:
    beyond = (a + apart < 0) | (a + apart >= 1)
    near = numpy.abs(apart) < SHORT
    below, above, under, over = (
        (numpy.searchsorted(known, a + by) / len(known)).mean() for by in (-SHORT, SHORT, 1 - SHORT, SHORT - 1)
    )
    inside, outside = above - below, 1 - under + over
    if near.mean() >= max(NEARLY_ALL, inside + outside + 5 * MORE):
        return True
    pairs = ((near & ~beyond).mean(), inside), ((near & beyond).mean(), outside)
    error = [(max(chance, 0.01) * (1 - chance) / len(a)) ** 0.5 for _, chance in pairs]
    return all(share - chance >= max(MORE, CERTAIN * e) for (share, chance), e in zip(pairs, error, strict=True))


def _reaches_its_ends(a: Floats, size: float) -> bool:
    """As many numbers at both ends as beside them: thin ends are those of a distribution, a pile is clipped."""
    outer = 1 / ZONES / EDGE
    for end in (a, 1 - 1 / size - a):
        zone, part = end < 1 / ZONES, end < outer
        if not FILLED[0] <= EDGE * part.sum() / max(1, zone.sum()) <= FILLED[1]:
            return False
        if len(numpy.unique(end[zone])) < min(DISTINCT, size / ZONES / 2) or _piled(end[zone]):
            return False
    return True


def _piled(end: Floats) -> bool:
    counts = numpy.unique(end, return_counts=True)[1]
    return bool(counts.max() > 3 * counts.mean() + 10)
