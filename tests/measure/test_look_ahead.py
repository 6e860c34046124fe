"""Columns that are computed from later rows in one file; smooth, reversed, gappy and unrelated series are not."""

from __future__ import annotations

import numpy
import pytest
from numpy.typing import NDArray

from trueloop.measure.look_ahead import look_ahead
from trueloop.measure.tables import Table, Values

Floats = NDArray[numpy.float64]


def table(**columns: Floats) -> Table:
    values = tuple(Values(name, numbers) for name, numbers in columns.items())
    return Table("a.csv", values, len(values[0]), named=True)


def average(series: Floats, width: int, last: int) -> Floats:
    """The mean of `width` rows, of which the last one is `last` rows after the present one."""
    sums = numpy.concatenate([[0.0], numpy.cumsum(series)])
    ends = numpy.arange(len(series)) + last + 1
    inside = (ends <= len(series)) & (ends >= width)
    result = numpy.full(len(series), numpy.nan)
    result[inside] = (sums[ends[inside]] - sums[ends[inside] - width]) / width
    return result


def series(seed: int, count: int, kind: str = "noise") -> Floats:
    noise = numpy.random.default_rng(seed).normal(size=count)
    if kind == "walk":
        return numpy.cumsum(noise)
    if kind == "daily":
        return 20 * numpy.sin(numpy.arange(count) / 4) + noise
    return noise


def rolled(seed: int, count: int, width: int, last: int, kind: str = "noise") -> Table:
    values = series(seed, count, kind)
    return table(load=values.round(3), mean=average(values, width, last).round(3))


@pytest.mark.parametrize("kind", ["noise", "walk", "daily"])
@pytest.mark.parametrize(("width", "last"), [(3, 1), (7, 3), (24, 12), (1, 1)])
def test_a_centered_window_beside_a_trailing_one(kind: str, width: int, last: int) -> None:
    found = look_ahead(rolled(0, 700, width, last, kind), rolled(1, 500, width, -1, kind))
    assert (found[0].column, found[0].source, found[0].last) == ("mean", "load", (last, -1))


def test_each_item_of_a_panel_is_a_series() -> None:
    def panel(seed: int, days: int, last: int) -> Table:
        values = [series(seed + item, days) for item in range(10)]
        means = [average(each, 5, last) for each in values]
        items = numpy.tile(numpy.arange(10.0), days)
        return table(item=items, value=numpy.stack(values, 1).ravel(), mean=numpy.stack(means, 1).ravel())

    found = look_ahead(panel(0, 200, 2), panel(50, 120, 0))
    assert [(each.last, each.group) for each in found] == [((2, 0), "item")]
    assert not look_ahead(panel(0, 200, 0), panel(50, 120, 0))


@pytest.mark.parametrize("kind", ["noise", "walk", "daily"])
def test_the_same_window_in_both_files(kind: str) -> None:
    assert not look_ahead(rolled(0, 700, 7, 0, kind), rolled(1, 500, 7, 0, kind))
    assert not look_ahead(rolled(0, 700, 7, 0, kind), rolled(1, 500, 12, 0, kind))


def test_a_smooth_curve_is_given_by_any_of_its_rows() -> None:
    def curve(count: int, last: int) -> Table:
        values = numpy.sin(numpy.arange(count) / 9) * 5
        return table(load=values.round(3), mean=average(values, 7, last).round(3))

    assert not look_ahead(curve(700, 3), curve(500, 0))


def test_rows_that_were_shuffled_in_one_file() -> None:
    trailing = rolled(0, 700, 7, 0)
    order = numpy.random.default_rng(3).permutation(500)
    live = rolled(1, 500, 7, 0)
    shuffled = table(**{each.name: each.numbers[order] for each in live.columns if each.numbers is not None})
    assert not look_ahead(trailing, shuffled)


def test_a_file_that_begins_with_its_newest_row() -> None:
    def dated(seed: int, step: int) -> Table:
        values = series(seed, 600)
        days, means = numpy.arange(600.0), average(values, 7, 0)
        return table(day=days[::step], load=values[::step], mean=means[::step])

    assert not look_ahead(dated(0, 1), dated(1, -1))


def test_a_noisy_estimate_is_not_computed_from_the_other_column() -> None:
    def noisy(seed: int, last: int) -> Table:
        values = series(seed, 600)
        return table(load=values, mean=average(values, 5, last) + 0.1 * series(seed + 9, 600))

    assert not look_ahead(noisy(0, 2), noisy(1, 0))
