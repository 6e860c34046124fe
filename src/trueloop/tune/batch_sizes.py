"""What larger batches would bring: the batch is doubled until it gains too little; and the largest that fits."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

from trueloop.recipe.recipe import Recipe
from trueloop.results.tune import BatchSizes, Trial
from trueloop.tune.machine_facts import MachineFacts
from trueloop.tune.measurer import Measurer
from trueloop.tune.process import TrialFailed

__all__ = ["batch_sizes", "knee_of", "largest_that_fits"]

KNEE: Final = 1.1  # A doubling that gains less than this is past the knee
DOUBLINGS: Final = 6
ROOM: Final = 0.9  # Share of the memory for training; allocators and other programs need the rest


def batch_sizes(
    recipe: Recipe, facts: MachineFacts, measurer: Measurer, best: Trial, first: int, report: Callable[[Trial], None]
) -> BatchSizes | None:
    """None: no time left, or no larger batch. Each size is a trial, numbered from `first`, that is only reported."""
    assert best.pace is not None
    start = int(best.changes.get("batch", recipe.batch))
    tried = [(start, best.pace.samples_per_second, best.pace.peak_bytes)]
    full = False
    while len(tried) <= DOUBLINGS and tried[-1][0] * 2 <= facts.samples and measurer.left() > 0:
        size = tried[-1][0] * 2
        changes = {**best.changes, "batch": size}
        trial = Trial(first + len(tried) - 1, "batch", changes, {"batch": size}, "reported")
        try:
            measured = measurer.pace(changes, best.changes)
        except TrialFailed as failed:
            report(replace(trial, said=str(failed), outcome="failed"))
            full = "memory" in str(failed)
            break
        # From the ratio, which was measured in turns; two separate timings are not comparable.
        rate = best.pace.samples_per_second * measured.faster
        pace = replace(measured.pace, samples_per_second=rate, step_seconds=size / rate)
        report(replace(trial, pace=pace, gain=measured.faster, speed=measured.faster * best.speed))
        tried.append((size, rate, pace.peak_bytes))
        measurer.keep(best.changes)
        if tried[-1][1] < KNEE * tried[-2][1]:
            break
    if len(tried) < 2:
        return None
    largest, limit = (tried[-1][0], "memory") if full else largest_that_fits(tried, facts.place.memory, facts.samples)
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
    """Extrapolated: the peak grows linearly with the batch."""
    (small, _, low), (large, _, high) = tried[0], tried[-1]
    each = (high - low) / (large - small)
    if each <= 0:
        return samples, "the number of samples"
    fitting = int(large + (ROOM * memory - high) / each)
    return (samples, "the number of samples") if fitting >= samples else (max(fitting, small), "memory")
