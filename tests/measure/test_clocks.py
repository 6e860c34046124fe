"""Files that are joined by time: clocks that are apart, and series that only look so."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import numpy
import pytest
from numpy.typing import NDArray

from trueloop.measure.clocks import Clocks, clocks_differ, series_of
from trueloop.measure.tables import Table, Values

Floats = NDArray[Any]
ROWS = 1200


def stored(path: str, values: Floats, *, begin: float = 0, name: str = "x") -> Table:
    times = Values("hour", (numpy.arange(len(values)) + begin).astype(float))
    return Table(path, (times, Values(name, values)), len(values), True)


def found(here: tuple[Table, Table], there: tuple[Table, Table]) -> Clocks | None:
    first, second, third, fourth = (series_of(table) for table in (*here, *there))
    assert first is not None
    assert second is not None
    assert third is not None
    assert fourth is not None
    return clocks_differ((first, second), (third, fourth))


def walk(draw: numpy.random.Generator, memory: float = 0.9) -> Floats:
    values = numpy.zeros(ROWS)
    for row, change in enumerate(draw.normal(size=ROWS - 1)):
        values[row + 1] = memory * values[row] + change
    return values


def year(seed: int, late: int, response: int = 0, daily: float = 3.0, coupled: float = 1.0) -> tuple[Table, Table]:
    draw = numpy.random.default_rng(seed)
    cloud = walk(draw)
    day = daily * numpy.sin(2 * numpy.pi * numpy.arange(ROWS) / 24)
    power = day - coupled * numpy.roll(cloud, response) + 0.5 * draw.normal(size=ROWS)
    return stored("weather.csv", cloud + day, name="cloud"), stored("power.csv", power, begin=late, name="power")


def renamed(pair: tuple[Table, Table]) -> tuple[Table, Table]:
    first, second = (Table(f"next_{t.path}", t.columns, t.rows, t.named) for t in pair)
    return first, second


@pytest.mark.parametrize("late", [24, -7, 2])
def test_a_clock_that_is_late(late: int) -> None:
    clocks = found(year(0, late), renamed(year(1, 0)))
    assert clocks is not None
    assert (clocks.delay, clocks.usual) == (late, 0)
    assert clocks.columns == ("cloud", "power")
    assert found(year(0, 0), renamed(year(1, late))) is None  # the file that is late is in the other pair


def test_dates_are_times_too() -> None:
    begin = datetime(2022, 3, 1)
    tables = []
    for table, moved in zip(year(0, 0), (0, 24), strict=True):
        words = [str(begin + timedelta(hours=row + moved)) for row in range(ROWS)]
        tables.append(Table(table.path, (Values("time", None, words), table.columns[1]), ROWS, True))
    usual = [Table(f"next_{t.path}", (tables[0].columns[0], t.columns[1]), ROWS, True) for t in year(1, 0)]
    clocks = found((tables[0], tables[1]), (usual[0], usual[1]))
    assert clocks is not None
    assert (clocks.delay, clocks.step, clocks.dated) == (24, 3600, True)


@pytest.mark.parametrize("seed", range(8))
def test_series_that_only_look_so(seed: int) -> None:
    assert found(year(seed, 0), renamed(year(seed + 50, 0))) is None
    assert found(year(seed, 5), renamed(year(seed + 50, 5))) is None  # a property of the instruments
    assert found(year(seed, 1), renamed(year(seed + 50, 0))) is None  # daylight saving time, or a stamp at the end
    assert found(year(seed, 9, coupled=0), renamed(year(seed + 50, 0, coupled=0))) is None  # only the day is shared
    assert found(year(seed, 9), renamed(year(seed + 50, 0, coupled=-1))) is None  # a different relation


@pytest.mark.parametrize("seed", range(4))
def test_a_response_that_is_slow_has_no_sharp_delay(seed: int) -> None:
    draw = numpy.random.default_rng(seed)
    pairs = []
    for name, reach in (("a", 8), ("b", 2)):
        rain, after = draw.exponential(1.0, ROWS) * (draw.random(ROWS) < 0.1), numpy.arange(80)
        river = numpy.convolve(rain, after**2 * numpy.exp(-after / reach) / reach**3)[:ROWS]
        gauge = stored(f"gauge_{name}.csv", river + 0.05 * draw.normal(size=ROWS))
        pairs.append((stored(f"rain_{name}.csv", rain), gauge))
    assert found(pairs[0], pairs[1]) is None
    assert found(pairs[1], pairs[0]) is None


def test_what_is_not_a_series() -> None:
    values = walk(numpy.random.default_rng(0))
    assert series_of(stored("few.csv", values[:100])) is None
    assert series_of(stored("codes.csv", numpy.round(values) % 3)) is None  # few values
    assert series_of(stored("gap.csv", numpy.where(numpy.arange(ROWS) == 7, numpy.nan, values))) is None
    gaps = Table("gaps.csv", (Values("hour", numpy.cumsum(1.0 + (values > 2))), Values("x", values)), ROWS, True)
    assert series_of(gaps) is None
    zoned = [f"2022-03-0{1 + row // 1440}T{row // 60 % 24:02}:{row % 60:02}:00+01:00" for row in range(ROWS)]
    assert series_of(Table("zoned.csv", (Values("time", None, zoned), Values("x", values)), ROWS, True)) is None
