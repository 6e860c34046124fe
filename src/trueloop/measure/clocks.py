"""Two pairs of files that are joined by time: does the same time mean the same moment in both pairs?

The part of a series that its own past does not predict (its innovations) happens once. If two instruments see the same
weather, their innovations agree at one delay, and this delay belongs to the instruments. So a delay that is different
in the next pair of files belongs to a clock: another time zone, a day too late, the start of a recording.
"""

import math
import os
from datetime import datetime
from itertools import product
from typing import Final, NamedTuple

import numpy
from numpy.typing import NDArray

from trueloop.measure.tables import Table, Values

__all__ = ["Clocks", "Series", "clocks_differ", "series_of"]

LEAST: Final = 400  # common times
MOST: Final = 20_000  # rows of a series
PAST: Final = 30  # values that predict the next one
REACH: Final = 48  # steps of a delay
DISTINCT: Final = 8  # values
CERTAIN: Final = 10.0  # standard errors of a correlation
WEAKEST: Final = 0.1  # correlation at a delay
CLEARLY: Final = 2.0  # times every other delay
ALIKE: Final = 0.6  # share of the correlation of the one pair in the other
NEAR: Final = 1  # steps beside a delay count as the delay
MOST_COLUMNS: Final = 6

Floats = NDArray[numpy.float64]


class Series(NamedTuple):
    """The columns of a file over its times, in equal steps."""

    path: str
    time: str  # the column
    begin: float
    step: float  # of the time: seconds, if it is dates
    dated: bool
    innovations: dict[str, Floats]  # by column; 0 before the first


class Clocks(NamedTuple):
    """Delays of the second file of a pair against the first, in steps of the common time."""

    files: tuple[str, str]
    columns: tuple[str, str]
    delay: int
    correlation: float
    usual_files: tuple[str, str]  # of the same kinds, for other times
    usual: int
    usual_correlation: float
    time: str
    step: float
    dated: bool


class _Delay(NamedTuple):
    steps: int
    correlation: float


def series_of(table: Table) -> Series | None:
    """None if no column is a time in equal steps, or nothing was measured."""
    if table.rows < LEAST or table.lines or not table.named:
        return None
    for column in table.columns:
        times = _times(column)
        if times is not None:
            others = [c for c in table.columns if c is not column and c.numbers is not None and _is_measured(c.numbers)]
            if not others:
                return None
            found = {c.name: _innovations(c.numbers[:MOST]) for c in others[:MOST_COLUMNS] if c.numbers is not None}
            return Series(table.path, column.name, times[0], times[1], column.words is not None, found)
    return None


def clocks_differ(pair: tuple[Series, Series], usual: tuple[Series, Series]) -> Clocks | None:
    """Whether the files of `pair` are apart by a delay, and those of `usual`, of the same kinds, by a smaller one."""
    first, second = pair
    if {first.path, second.path} & {each.path for each in usual}:
        return None
    if len({(each.time, each.step, each.dated) for each in (*pair, *usual)}) > 1:
        return None
    for one, other in product(first.innovations, second.innovations):
        if one in usual[0].innovations and other in usual[1].innovations:
            here = _delay(first, second, one, other)
            there = None if here is None else _delay(*usual, one, other)
            if here is not None and there is not None and _are_apart(here, there):
                return Clocks(_names(pair), (one, other), *here, _names(usual), *there, first.time, first.step,
                              first.dated)  # fmt: skip
    return None


def _names(pair: tuple[Series, Series]) -> tuple[str, str]:
    return os.path.basename(pair[0].path), os.path.basename(pair[1].path)


def _are_apart(here: _Delay, there: _Delay) -> bool:
    """The same relation, at a delay that is clearly longer."""
    apart = abs(here.steps) - abs(there.steps) > NEAR
    return apart and ALIKE <= here.correlation / there.correlation <= 1 / ALIKE


def _delay(first: Series, second: Series, one: str, other: str) -> _Delay | None:
    """The one delay at which the innovations of two files agree, if there is one."""
    a, b = first.innovations[one], second.innovations[other]
    begin = round((second.begin - first.begin) / first.step)  # the row of the first file where the second begins
    found = {}
    for steps in range(-REACH, REACH + 1):
        offset = begin - steps  # row i of the second file beside row i + offset of the first
        low, high = max(0, -offset), min(len(b), len(a) - offset)
        if high - low < LEAST:
            return None
        x, y = a[low + offset : high + offset], b[low:high]
        size = math.sqrt(float(x @ x) * float(y @ y))
        found[steps] = float(x @ y) / size if size else 0.0
        common = high - low
    best = max(found, key=lambda steps: abs(found[steps]))
    beside = max(abs(value) for steps, value in found.items() if abs(steps - best) > NEAR)
    strong = abs(found[best]) >= max(WEAKEST, CERTAIN / math.sqrt(common), CLEARLY * beside)
    return _Delay(best, found[best]) if strong and abs(best) < REACH else None


def _innovations(values: Floats) -> Floats:
    """What the values before do not predict, in standard deviations; outliers count no more than four of them."""
    values = values / (numpy.abs(values).max() or 1.0)  # squares of very large numbers overflow
    past = numpy.lib.stride_tricks.sliding_window_view(values[:-1], PAST)
    design = numpy.column_stack([past, numpy.ones(len(past))])
    weights, *_ = numpy.linalg.lstsq(design, values[PAST:], rcond=None)
    rest = values[PAST:] - design @ weights
    size = float(rest.std()) or 1.0
    return numpy.concatenate([numpy.zeros(PAST), numpy.clip(rest / size, -4, 4)])


def _is_measured(values: Floats) -> bool:
    """Rather than counted: neither a number of the row nor one of few codes."""
    values = values[:MOST]
    if not numpy.isfinite(values).all() or len(numpy.unique(values)) < DISTINCT:
        return False
    steps = numpy.diff(values)
    return not (steps[0] == steps).all()


def _times(column: Values) -> tuple[float, float] | None:
    """The first time and the step, if all steps are equal."""
    if column.words is not None:
        values = _seconds(column.words[:MOST])
    else:
        values = None if column.numbers is None else column.numbers[:MOST]
    if values is None or not numpy.isfinite(values).all():
        return None
    steps = numpy.diff(values)
    if steps[0] <= 0 or numpy.abs(steps - steps[0]).max() > 1e-6 * steps[0]:
        return None
    return float(values[0]), float(steps[0])


def _seconds(words: list[str]) -> Floats | None:
    try:
        dates = [datetime.fromisoformat(word) for word in words]
    except ValueError:
        return None
    if any(date.tzinfo is not None for date in dates):
        return None  # these clocks say what they are
    return numpy.array([(date - datetime(1970, 1, 1)).total_seconds() for date in dates])
