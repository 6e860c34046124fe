"""What the server knows of its own speed."""

from __future__ import annotations

import pytest

from trueloop.serve.batching import BatchTimes


def paced(**seconds: float) -> BatchTimes:
    pace = BatchTimes()
    for numbers, taken in seconds.items():
        pace.learn(int(numbers.removeprefix("of")), taken)
    return pace


def test_nothing_is_known_of_a_model_that_never_computed() -> None:
    assert BatchTimes().seconds(100) == 0.0


def test_what_was_seen_is_expected_again() -> None:
    pace = paced(of1=0.002, of32=0.020)
    assert pace.seconds(1) == pytest.approx(0.002)
    assert pace.seconds(32) == pace.seconds(33) == pace.seconds(63) == pytest.approx(0.020)


def test_a_size_that_was_never_seen_lies_between_its_neighbours() -> None:
    pace = paced(of1=0.002, of32=0.033)
    assert [pace.seconds(size) for size in (2, 8, 16)] == pytest.approx([0.003, 0.009, 0.017])


def test_less_than_was_ever_seen_takes_as_long() -> None:
    assert paced(of32=0.020).seconds(4) == pytest.approx(0.020)


def test_more_than_was_ever_seen_takes_longer_in_proportion() -> None:
    assert paced(of32=0.020).seconds(128) == pytest.approx(0.080)


def test_a_machine_that_has_become_slower_is_soon_known() -> None:
    pace = paced(of8=0.010)
    for _ in range(40):
        pace.learn(8, 0.050)
    assert pace.seconds(8) == pytest.approx(0.050, rel=0.01)


def test_times_that_differ_are_expected_with_caution() -> None:
    steady, shaky = BatchTimes(), BatchTimes()
    for number in range(100):
        steady.learn(8, 0.020)
        shaky.learn(8, 0.010 if number % 2 else 0.030)
    assert steady.seconds(8) == pytest.approx(0.020)
    assert 0.030 < shaky.seconds(8) < 0.070


def test_a_large_batch_that_was_slow_once_is_tried_again() -> None:
    pace = paced(of8=0.010, of64=9.0)
    for _ in range(1_000):
        pace.learn(8, 0.010)
    assert pace.seconds(64) < 0.010
    assert pace.seconds(8) == pytest.approx(0.010)
