"""Codes that each of two files has made for itself: one code names different things.

What a code means shows in the mean of another column over its rows. If the files have the same things under different
codes, the means differ code by code by many standard errors, and agree within them once the codes are matched. Two
ways of making codes leave a mark: numbers by first appearance (in both files the codes first come as 0, 1, 2, ...), and
numbers in sorted order, where a file that lacks one thing has every later code one lower. Any other way is known only
if several columns agree after one matching.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy
from numpy.typing import NDArray

from trueloop.measure.tables import Table, Values

__all__ = ["Recoded", "recoded"]

LEAST: Final = 100  # rows
FEWEST_CODES: Final = 3
LEAST_CODES: Final = 6  # that first come in one order: by chance once in 720
WITNESSES: Final = 2  # more columns that agree after the same matching: then codes in any order are found
MOST_PERMUTED: Final = 12  # codes whose means are far enough apart to be matched
MOST_CODES: Final = 300
ROWS_PER_CODE: Final = 8  # in the mean
LEAST_ROWS: Final = 3  # of each code
MOST_COLUMNS: Final = 24
APART: Final = 10.0  # mean square of the differences, in squared standard errors
AGREE: Final = 2.0  # the same if the means are equal but for chance
BY_CHANCE: Final = 0.25  # of what a draw of other things from the same distribution would give, sorted alike
DRAWS: Final = 50
SHIFTED: Final = 3  # codes on both sides of the one that is missing
IN_LINE: Final = 0.8  # correlation of the means with the codes: a trend over time moves them too

Floats = NDArray[numpy.float64]


class Recoded(NamedTuple):
    column: str
    by: str  # the column whose means were compared
    codes: int
    how: str  # first: by first appearance. missing: in sorted order, without one. permuted: in any order
    code: int  # missing: the first one that means something else
    apart: float  # standard errors by which the means differ, code by code
    agree: float  # after matching


class _Means(NamedTuple):
    values: Floats
    errors: Floats  # standard errors


def recoded(first: Table, second: Table) -> Iterator[Recoded]:
    for column in first.columns:
        if column.name not in second.names or min(first.rows, second.rows) < LEAST:
            continue
        here, there = _codes(column), _codes(second.column(column.name))
        if here is None or there is None:
            continue
        means = {name: (_means(first.column(name), here), _means(second.column(name), there))
                 for name in _others(first, second, column.name)}  # fmt: skip
        pairs = {name: (a, b) for name, (a, b) in means.items() if a is not None and b is not None}
        found = _matched(column.name, pairs, _by_appearance(here) and _by_appearance(there))
        if found is not None:
            yield found


def _matched(column: str, pairs: dict[str, tuple[_Means, _Means]], by_appearance: bool) -> Recoded | None:
    """From the columns whose means differ most, code by code."""
    apart = {name: _as_it_is(a, b) for name, (a, b) in pairs.items()}
    far = sorted((name for name in pairs if apart[name] >= APART), key=lambda name: -apart[name])
    if not far:
        return None
    a, b = pairs[far[0]]
    codes = min(len(a.values), len(b.values))
    if len(a.values) != len(b.values):
        longer, shorter = (a, b) if len(a.values) > codes else (b, a)
        flat = abs(numpy.corrcoef(longer.values, numpy.arange(len(longer.values)))[0, 1]) < IN_LINE
        if len(longer.values) > codes + 1 or codes < LEAST_CODES or not flat:
            return None
        return _without_one(longer, shorter, Recoded(column, far[0], codes, "missing", 0, apart[far[0]] ** 0.5, 0.0))
    ours, theirs = a.values.argsort(), b.values.argsort()
    agree = _apart(a, b, ours, theirs)
    others = [_apart(*pairs[name], ours, theirs) <= AGREE for name in far[1:]]
    if agree > AGREE or not all(others):
        return None
    surely = by_appearance and codes >= LEAST_CODES and agree <= BY_CHANCE * _other_things(a, b)
    if not surely and (len(others) < WITNESSES or codes > MOST_PERMUTED):
        return None
    how = "first" if by_appearance and codes >= LEAST_CODES else "permuted"
    return Recoded(column, far[0], codes, how, 0, apart[far[0]] ** 0.5, agree**0.5)


def _as_it_is(a: _Means, b: _Means) -> float:
    every = numpy.arange(min(len(a.values), len(b.values)))
    return _apart(a, b, every, every)


def _without_one(longer: _Means, shorter: _Means, found: Recoded) -> Recoded | None:
    """The code that the shorter list lacks: those before it agree as they are, all later ones after moving by one."""
    every = numpy.arange(found.codes)
    moved = {gap: _apart(longer, shorter, every + (every >= gap), every)
             for gap in range(SHIFTED, found.codes - SHIFTED)}  # fmt: skip
    best = min(moved, key=lambda gap: moved[gap], default=0)
    later = every[best:]
    if not best or moved[best] > AGREE or _apart(longer, shorter, later, later) < APART:
        return None
    return found._replace(code=best, agree=moved[best] ** 0.5)


def _codes(column: Values) -> NDArray[numpy.int64] | None:
    """All whole numbers from 0 or 1 on, in no order."""
    values = column.numbers
    if values is None or not numpy.isfinite(values).all() or bool((values != numpy.round(values)).any()):
        return None
    codes = (values - values.min()).astype(numpy.int64)
    count = int(codes.max()) + 1
    if values.min() not in (0, 1) or not FEWEST_CODES <= count <= MOST_CODES or count * ROWS_PER_CODE > len(codes):
        return None
    if numpy.bincount(codes, minlength=count).min() < LEAST_ROWS:
        return None
    steps = numpy.diff(codes)
    falls, next_ones = float((steps < 0).mean()), float((steps % count == 1).mean())
    return codes if falls > 0.2 and next_ones < 0.5 else None  # neither in blocks nor in turns


def _by_appearance(codes: NDArray[numpy.int64]) -> bool:
    _, first = numpy.unique(codes, return_index=True)
    return bool((numpy.diff(first) > 0).all())


def _others(first: Table, second: Table, column: str) -> Iterator[str]:
    for other in first.columns[:MOST_COLUMNS]:
        if other.name == column or other.name not in second.names:
            continue
        sides = (other.numbers, second.column(other.name).numbers)
        if all(side is not None and numpy.isfinite(side).all() and side.std() > 0 for side in sides):
            yield other.name


def _means(column: Values, codes: NDArray[numpy.int64]) -> _Means | None:
    """The mean of a column over the rows of each code, if the codes say much about it."""
    assert column.numbers is not None
    counts = numpy.bincount(codes)
    means = numpy.bincount(codes, column.numbers) / counts
    spread = float(((column.numbers - means[codes]) ** 2).sum() / max(1, len(codes) - len(counts)))
    if not spread or float((counts * (means - column.numbers.mean()) ** 2).mean()) < APART * spread:
        return None
    return _Means(means, (spread / counts) ** 0.5)


def _apart(a: _Means, b: _Means, ours: NDArray[numpy.int64], theirs: NDArray[numpy.int64]) -> float:
    """Mean square of the differences in squared standard errors."""
    errors = a.errors[ours] ** 2 + b.errors[theirs] ** 2
    return float(((a.values[ours] - b.values[theirs]) ** 2 / errors).mean())


def _other_things(a: _Means, b: _Means) -> float:
    """How far apart the sorted means of as many other things of the same kind are: one draw in twenty is nearer."""
    generator = numpy.random.default_rng(0)
    order = a.values.argsort()
    draws = [_Means(numpy.sort(generator.choice(a.values, len(order))), b.errors) for _ in range(DRAWS)]
    every = numpy.arange(len(order))
    return float(numpy.quantile([_apart(a, draw, order, every) for draw in draws], 0.05))
