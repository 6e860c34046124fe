"""Two files of sentences, line by line: where do lines of one file belong to other lines of the other file?"""

from typing import Final, NamedTuple

import numpy
from numpy.typing import NDArray

__all__ = ["ShiftedLines", "shifted_lines"]

BLOCK: Final = 100  # lines
LEAST: Final = 300
SHIFTS: Final = (-3, -2, -1, 1, 2, 3)
RELATED: Final = 0.5  # correlation of the lengths of lines that belong together
UNRELATED: Final = 0.2


class ShiftedLines(NamedTuple):
    first: int  # line
    last: int
    by: int
    here: float  # correlation of the lengths, where the lines are now
    moved: float


def shifted_lines(lines: list[str], others: list[str]) -> ShiftedLines | None:
    """The longest run of blocks in which the lengths agree only after moving the lines."""
    count = min(len(lines), len(others))
    if count < LEAST:
        return None
    a, b = (numpy.array([len(line.split()) for line in each[:count]], dtype=numpy.float64) for each in (lines, others))
    best: ShiftedLines | None = None
    for shift in SHIFTS:
        moved = [first for first in range(4, count - BLOCK - 3, BLOCK) if _belongs(a, b, first, shift)]
        if not moved or (best is not None and len(moved) * BLOCK <= best.last - best.first):
            continue
        first, last = moved[0], moved[-1] + BLOCK
        if len(moved) >= 2 and len(moved) >= 0.7 * (last - first) / BLOCK:
            best = ShiftedLines(first, last, shift, _related(a, b, first, last, 0), _related(a, b, first, last, shift))
    return best


def _belongs(a: NDArray[numpy.float64], b: NDArray[numpy.float64], first: int, shift: int) -> bool:
    here, moved = (_related(a, b, first, first + BLOCK, by) for by in (0, shift))
    return moved >= RELATED and here <= UNRELATED


def _related(a: NDArray[numpy.float64], b: NDArray[numpy.float64], first: int, last: int, shift: int) -> float:
    x, y = a[first:last], b[first + shift : last + shift]
    if x.std() == 0 or y.std() == 0 or len(x) != len(y):
        return 0.0
    return float(numpy.corrcoef(x, y)[0, 1])
