"""Student's t against scipy's, Holm's correction, and how many seeds would settle a comparison."""

from __future__ import annotations

import random

import pytest
from scipy import stats

from trueloop.results.significance import adjusted, difference_of, seeds_needed, two_sided_p

ONE = {0: 0.98, 1: 0.97, 2: 0.985, 3: 0.978}
OTHER = {0: 0.95, 1: 0.96, 2: 0.955, 3: 0.949}


@pytest.mark.parametrize("freedom", [1, 2, 3.7, 9, 30, 400])
@pytest.mark.parametrize("t", [0.0, 0.1, 1.0, 2.5, 8.0, 60.0, -3.0])
def test_the_p_value_is_that_of_scipy(t: float, freedom: float) -> None:
    expected = 2 * stats.t.sf(abs(t), freedom)
    assert two_sided_p(t, freedom) == pytest.approx(expected, rel=1e-9, abs=1e-15)


def test_common_seeds_are_paired() -> None:
    found = difference_of(ONE, OTHER)
    expected = stats.ttest_rel(list(ONE.values()), list(OTHER.values()))
    assert found.paired
    assert found.p == pytest.approx(expected.pvalue)
    assert found.n == 4


def test_other_seeds_are_compared_by_welch() -> None:
    later = {seed + 10: value for seed, value in OTHER.items()}
    found = difference_of(ONE, later)
    expected = stats.ttest_ind(list(ONE.values()), list(OTHER.values()), equal_var=False)
    assert not found.paired
    assert found.p == pytest.approx(expected.pvalue)


def test_one_value_each_shows_no_noise() -> None:
    assert difference_of({0: 1.0}, {0: 2.0}).p is None


def test_equal_values_are_not_certain() -> None:
    """Three seeds that agree to the last digit may be a coarse metric."""
    assert difference_of({0: 0.5, 1: 0.5, 2: 0.5}, {0: 0.4, 1: 0.4, 2: 0.4}).p == 0.25
    assert difference_of({0: 0.5, 1: 0.5}, {0: 0.5, 1: 0.5}).p == 1.0


def test_holm() -> None:
    assert adjusted([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert adjusted([]) == []
    assert adjusted([0.9, 0.8]) == [1.0, 1.0]


def test_seeds_that_would_settle_it() -> None:
    draws = random.Random(1)
    few = {seed: 0.5 + draws.gauss(0, 0.01) for seed in range(3)}
    found = difference_of(few, {seed: 0.49 + draws.gauss(0, 0.01) for seed in range(3)})
    needed = seeds_needed(found, 0.05)
    assert needed is not None
    assert needed > 3
    assert seeds_needed(found, 0.001) is None or (seeds_needed(found, 0.001) or 0) > needed
    exact = difference_of({0: 0.5, 1: 0.5}, {0: 0.4, 1: 0.4})
    assert seeds_needed(exact, 0.05) == 6  # 2 / 2^6 < 0.05: the sign test
    agree = difference_of({0: 0.985, 1: 0.99}, {0: 0.98, 1: 0.985})  # pairs differ by exactly 0.005, singles by as much
    assert (seeds_needed(agree, 0.05) or 0) > 6
    assert seeds_needed(difference_of({0: 0.5, 1: 0.6}, {0: 0.6, 1: 0.5}), 0.05) is None
