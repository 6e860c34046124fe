"""What larger batches would bring: twice the batch, and twice again, until it gains too little; and the largest that
would fit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

from trueloop.recipe.recipe import Recipe
from trueloop.results.tune import BatchSizes, Trial
from trueloop.tune.machine_facts import Here
from trueloop.tune.measurer import Measurer
from trueloop.tune.process import TrialFailed

__all__ = ["batch_sizes", "knee_of", "largest_that_fits"]

KNEE: Final = 1.1
"""Twice the batch that gains less than a tenth is past the knee."""
DOUBLINGS: Final = 6
ROOM: Final = 0.9
"""Of the memory, for the whole training: pools and other programs need the rest."""


def batch_sizes(
    recipe: Recipe, here: Here, measurer: Measurer, best: Trial, first: int, told: Callable[[Trial], None]
) -> BatchSizes | None:
    """None: there was no time, or no larger batch. Each is a trial, numbered from `first`, and reported only."""
    assert best.pace is not None
    start = int(best.changes.get("batch", recipe.batch))
    tried = [(start, best.pace.samples_per_second, best.pace.peak_bytes)]
    full = False
    while len(tried) <= DOUBLINGS and tried[-1][0] * 2 <= here.samples and measurer.left() > 0:
        size = tried[-1][0] * 2
        changes = {**best.changes, "batch": size}
        made = Trial(first + len(tried) - 1, "batch", changes, {"batch": size}, "reported")
        try:
            measured = measurer.pace(changes, best.changes)
        except TrialFailed as failed:
            told(replace(made, said=str(failed), outcome="failed"))
            full = "memory" in str(failed)
            break
        # Reckoned from the ratio, which was measured in turns, not from two clocks.
        rate = best.pace.samples_per_second * measured.faster
        pace = replace(measured.pace, samples_per_second=rate, step_seconds=size / rate)
        told(replace(made, pace=pace, gain=measured.faster, speed=measured.faster * best.speed))
        tried.append((size, rate, pace.peak_bytes))
        measurer.keep(best.changes)
        if tried[-1][1] < KNEE * tried[-2][1]:
            break
    if len(tried) < 2:
        return None
    largest, limit = (tried[-1][0], "memory") if full else largest_that_fits(tried, here.place.memory, here.samples)
    return BatchSizes(tuple(tried), knee_of(tried), largest, full or largest == tried[-1][0], limit)


def knee_of(tried: Sequence[tuple[int, float, int]]) -> int:
    """The last size that was worth its doubling."""
    knee = tried[0][0]
    for (_, before, _), (size, rate, _) in pairwise(tried):
        if rate < KNEE * before:
            break
        knee = size
    return knee


def largest_that_fits(tried: Sequence[tuple[int, float, int]], memory: int, samples: int) -> tuple[int, str]:
    """The peak grows by about the same for each sample: so many fit."""
    (small, _, low), (large, _, high) = tried[0], tried[-1]
    each = (high - low) / (large - small)
    if each <= 0:
        return samples, "the number of samples"
    fitting = int(large + (ROOM * memory - high) / each)
    return (samples, "the number of samples") if fitting >= samples else (max(fitting, small), "memory")
