"""Few points of a long curve keep its spikes; a narrow range has all its points."""

from __future__ import annotations

import math
from array import array

import pytest

from trueloop.ui.downsample import bucket_means, curve, smooth


def test_a_spike_stays_visible() -> None:
    values = array("d", [1.0] * 100_000)
    values[54_321] = 99.0
    values[12_345] = -7.0
    found = curve(range(100_000), values, 1000)
    assert len(found.x) <= 1100
    assert max(value for value in found.y if value is not None) == 99.0
    assert found.x[found.y.index(99.0)] == 54_321
    assert -7.0 in found.y
    assert (found.x[0], found.x[-1], found.total) == (0, 99_999, 100_000)


def test_a_narrow_range_has_all_its_points() -> None:
    values = array("d", map(float, range(100_000)))
    found = curve(range(100_000), values, 1000, 500, 900)
    assert found.x == list(range(499, 902))


def test_nothing_is_nothing() -> None:
    assert curve([], [], 100).x == []
    assert curve([1.0], [2.0], 100).y == [2.0]
    assert curve([1.0, 2.0], [2.0, 3.0], 100, 5.0, 6.0).total <= 1


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_values_that_are_not_finite_are_gaps_and_named(bad: float) -> None:
    values = array("d", [1.0] * 10_000)
    values[5_000] = bad
    found = curve(range(10_000), values, 100)
    assert found.bad == [5_000]
    assert None in found.y
    assert curve(range(10), [bad] * 10, 100).y == [None] * 10
    assert set(curve(range(10_000), array("d", [bad] * 10_000), 100).y) == {None}


def test_points_stand_in_order() -> None:
    values = array("d", [math.sin(index) for index in range(5_000)])
    found = curve(range(5_000), values, 200)
    assert found.x == sorted(found.x)
    assert len(set(found.x)) == len(found.x)


def test_smoothing_starts_at_the_first_value() -> None:
    assert smooth([4.0, 4.0, 4.0], 0.9).tolist() == pytest.approx([4.0, 4.0, 4.0])
    assert smooth([math.nan, 2.0], 0.5).tolist()[1] == 2.0


def test_means_of_buckets() -> None:
    assert bucket_means([1, 2, 3, 9], [1.0, 3.0, 5.0, math.nan], [0, 2, 4, 6, 10]) == [2.0, 5.0, None, None]
