"""Maps of one place that belong together pixel by pixel: is one of them stored upside down, mirrored or turned?

Two smooth maps that have nothing to do with one another may correlate in some orientation at some shift. They hardly
have their largest correlation of all shifts exactly where they lie on one another, in a different orientation.
"""

import re
from collections.abc import Callable, Iterator
from itertools import combinations
from typing import Final, NamedTuple

import numpy
from numpy.typing import NDArray

from trueloop.measure.table_differences import Difference
from trueloop.measure.tables import Table

__all__ = ["turned_grids"]

SMALLEST: Final = 24  # pixels along each side
MOST_PIXELS: Final = 2**18
MOST_GRIDS: Final = 8
SMOOTH: Final = 0.6  # correlation of neighbors, along both sides
UNRELATED: Final = 0.35  # correlation of the maps as they are, at most
RELATED: Final = 0.7  # and in the orientation that fits, at least
COPY: Final = 0.999  # a flipped copy, as an augmentation makes it
CLEARLY: Final = 0.3  # above the other orientations
NEAR: Final = 0.7  # of the largest correlation
FEW: Final = 0.1  # of the shifts come near it
BESIDE: Final = 0.05  # of a side: a slope or a shadow lies beside what it depends on
SIDES: Final = re.compile(r"left|right|mirror|flip|turned|rot", re.IGNORECASE)

Floats = NDArray[numpy.float64]
_TURNS: Final[dict[str, Callable[[Floats], Floats]]] = {
    "upside down": lambda grid: grid[::-1],
    "mirrored left to right": lambda grid: grid[:, ::-1],
    "turned by 180 degrees": lambda grid: grid[::-1, ::-1],
    "transposed": lambda grid: grid.T,
    "turned by 90 degrees": lambda grid: grid.T[::-1],
    "turned by 270 degrees": lambda grid: grid.T[:, ::-1],
}


class Grid(NamedTuple):
    table: Table
    name: str
    values: Floats  # with mean 0 and deviation 1


def turned_grids(tables: list[Table]) -> Iterator[tuple[Difference, Table, Table]]:
    """At most one pair of maps, with the table of the first and that of the second."""
    grids = [grid for table in tables for grid in _grids(table)][:MOST_GRIDS]
    for first, second in combinations(grids, 2):
        if SIDES.search(first.name + second.name + first.table.path.rsplit("/")[-1]):
            continue
        found = _turned(first.values, second.values)
        if found is not None:
            how, before, after = found
            there = f"{after:.2f}"
            yield Difference("grids", second.name or "map", f"{before:.2f}", there, 0.0, how), second.table, first.table
            return


def _grids(table: Table) -> Iterator[Grid]:
    """Arrays [H, W], and the means of [N, H, W]."""
    for name, array in table.arrays:
        if array.ndim not in (2, 3) or array.dtype.kind not in "fiub":
            continue
        sides = array.shape[-2:]
        if min(sides) < SMALLEST or sides[0] * sides[1] > MOST_PIXELS:
            continue
        grid = array.astype(numpy.float64) if array.ndim == 2 else array.mean(0, dtype=numpy.float64)
        if not numpy.isfinite(grid).all() or not grid.std():
            continue
        grid = (grid - grid.mean()) / grid.std()
        if min(float((grid[1:] * grid[:-1]).mean()), float((grid[:, 1:] * grid[:, :-1]).mean())) >= SMOOTH:
            yield Grid(table, name, grid)


def _turned(first: Floats, second: Floats) -> tuple[str, float, float] | None:
    if first.shape != second.shape:
        return None
    before = float((first * second).mean())
    turns = {how: turn(second) for how, turn in _TURNS.items()}
    after = {how: float((first * each).mean()) for how, each in turns.items() if each.shape == first.shape}
    best, next_best = sorted(after, key=lambda how: -abs(after[how]))[:2]
    fits = abs(after[best])
    if abs(before) > UNRELATED or not RELATED <= fits < COPY or fits - abs(after[next_best]) < CLEARLY:
        return None
    spectrum = numpy.fft.fft2(first) * numpy.conj(numpy.fft.fft2(turns[best]))
    shifted = numpy.abs(numpy.fft.ifft2(spectrum).real) / first.size
    place = numpy.unravel_index(int(shifted.argmax()), shifted.shape)
    centered = all(min(at, size - at) <= BESIDE * size for at, size in zip(place, shifted.shape, strict=True))
    alone = float((shifted >= NEAR * shifted.max()).mean()) <= FEW
    return (best, before, after[best]) if centered and alone else None
