"""Larger batches: told, not chosen. Where twice the batch stops to gain, and how many would fit."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.tune.worlds import CPU, pace, recipe
from trueloop.results.tune import BatchSizes, Changes, Trial
from trueloop.tune.measurer import FakeMeasurer, FakeTrial
from trueloop.tune.search import DOUBLINGS, batch_sizes, knee_of, largest_that_fits

BEST = Trial(3, "threads", {"threads": 1}, {"threads": 1}, "kept", pace=pace(32 / 1.32e-3, 10**8), gain=1.0, speed=2.0)


def reported(machine: FakeMeasurer, samples: int = 4096) -> tuple[BatchSizes | None, list[Trial]]:
    told: list[Trial] = []
    sizes = batch_sizes(recipe(), replace(CPU, samples=samples), machine, BEST, 4, told.append)
    return sizes, told


def growing(changes: Changes) -> FakeTrial:
    """A step has a cost of its own, and one for each sample."""
    batch = int(changes.get("batch", 32))
    return FakeTrial(1e-3 + 1e-5 * batch, 5 * 10**7 + 10**6 * batch)


def test_it_doubles_until_it_gains_too_little() -> None:
    sizes, told = reported(FakeMeasurer(growing, batch=32))
    assert sizes is not None
    assert [size for size, _, _ in sizes.tried] == [32, 64, 128, 256, 512, 1024]
    assert sizes.knee == 512
    assert [trial.number for trial in told] == list(range(4, 4 + len(told)))
    assert all(trial.outcome == "reported" and trial.changes["threads"] == 1 for trial in told)


def test_rates_are_reckoned_from_ratios() -> None:
    sizes, told = reported(FakeMeasurer(growing, batch=32))
    assert sizes is not None
    assert BEST.pace is not None
    for (size, rate, _), trial in zip(sizes.tried[1:], told, strict=True):
        assert rate == pytest.approx(BEST.pace.samples_per_second * trial.gain)
        assert trial.pace is not None
        assert trial.pace.step_seconds == pytest.approx(size / rate)
        assert trial.speed == pytest.approx(2.0 * trial.gain)


def test_a_batch_that_does_not_fit_is_the_limit() -> None:
    def full(changes: Changes) -> FakeTrial:
        return growing(changes) if int(changes.get("batch", 32)) < 200 else FakeTrial(fails="out of memory at 3.1 GB")

    sizes, told = reported(FakeMeasurer(full, batch=32))
    assert sizes is not None
    assert (sizes.largest, sizes.measured, sizes.limit) == (128, True, "memory")
    assert (told[-1].outcome, told[-1].said) == ("failed", "out of memory at 3.1 GB")


def test_there_are_no_more_samples_than_there_are() -> None:
    sizes, _ = reported(FakeMeasurer(growing, batch=32), samples=100)
    assert sizes is not None
    assert [size for size, _, _ in sizes.tried] == [32, 64]
    assert (sizes.largest, sizes.limit) == (100, "the number of samples")
    assert reported(FakeMeasurer(growing, batch=32), samples=40) == (None, [])


def test_without_time_nothing_is_told() -> None:
    assert reported(FakeMeasurer(growing, seconds=0.0, batch=32)) == (None, [])


def test_it_ends_though_every_doubling_gains() -> None:
    sizes, told = reported(FakeMeasurer(lambda _: FakeTrial(1e-3), batch=32), samples=10**9)
    assert sizes is not None
    assert len(told) == DOUBLINGS
    assert sizes.knee == sizes.tried[-1][0]


@pytest.mark.parametrize(
    ("rates", "knee"), [((1.0, 2.0, 4.0), 128), ((1.0, 1.05, 1.06), 32), ((1.0, 1.5, 1.55), 64), ((1.0, 0.5, 2.0), 32)]
)
def test_the_knee_is_the_last_size_that_was_worth_it(rates: tuple[float, ...], knee: int) -> None:
    assert knee_of([(32 * 2**number, rate, 0) for number, rate in enumerate(rates)]) == knee


def test_the_largest_is_reckoned_from_how_the_peak_grows() -> None:
    tried = [(32, 1.0, 100), (64, 1.0, 132)]  # one byte for each sample
    assert largest_that_fits(tried, memory=1000, samples=10**6) == (832, "memory")
    assert largest_that_fits(tried, memory=1000, samples=500) == (500, "the number of samples")
    assert largest_that_fits([(32, 1.0, 100), (64, 1.0, 100)], 1000, 500) == (500, "the number of samples")
