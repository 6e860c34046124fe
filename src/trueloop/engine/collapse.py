"""Has a run collapsed? A pure decision from numbers: the run's validation metric, a baseline's, and a constant
answer's. No torch.

    check = CollapseCheck(baseline, constant)
    found = check.check(step=120, epoch=2.0, value=0.11, best=None, last=False)
    found.sentence       # 'Validation accuracy 0.11 at step 120 is below ...'; None: all is well

In mid-run a run is held against the baseline at the same step, and may be late: it has collapsed only if it is below
what the baseline had reached after half as many steps. At the end its best is held against the baseline's best.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from trueloop.hook import Collapse

__all__ = ["FIRST_CHECKED_EPOCH", "LAG", "Baseline", "CollapseCheck", "ConstantAnswer"]

FIRST_CHECKED_EPOCH: Final = (
    1.0  # epochs before the first check: in the first, a healthy model may be no better than a constant
)
LAG: Final = 2  # how many times as many steps a healthy run may need in mid-run: late is not lost


@dataclass(frozen=True, slots=True)
class Baseline:
    """A run that was good: what a later run must not fall below."""

    run: str  # Its folder
    metric: str
    higher_is_better: bool
    value: float  # Its best
    noise: float  # How far apart equally good runs lie
    noise_from: str  # Where the noise is known from, in words
    rows: tuple[tuple[int, float], ...] = ()  # Its validation: (step, value), in the order of steps

    @property
    def name(self) -> str:
        return Path(self.run).name

    def at(self, step: float) -> float | None:
        """Its validation at a step, a straight line between two evaluations; None: before its first."""
        if not self.rows or step < self.rows[0][0]:
            return None
        after = bisect_right([each for each, _ in self.rows], step)
        if after == len(self.rows):
            return self.rows[-1][1]
        (low, here), (high, there) = self.rows[after - 1], self.rows[after]
        return here + (there - here) * (step - low) / (high - low)

    def expected(self, step: int) -> float | None:
        """The least that is expected of a run at a step that may be late; None: nothing is."""
        then, now = self.at(step / LAG), self.at(step)
        if then is None or now is None:
            return None
        return min(then, now) if self.higher_is_better else max(then, now)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, told: Mapping[str, Any]) -> Baseline:
        """Raises KeyError, TypeError or ValueError where a hand has changed it."""
        rows = tuple((int(step), float(value)) for step, value in told["rows"])
        run, metric, noise_from = (str(told[name]) for name in ("run", "metric", "noise_from"))
        value, noise = float(told["value"]), float(told["noise"])
        return cls(run, metric, bool(told["higher_is_better"]), value, noise, noise_from, rows)


@dataclass(frozen=True, slots=True)
class ConstantAnswer:
    """The constant answer that is best on the training labels, scored on the validation labels."""

    answer: str  # In words: 'always class 3'
    value: float


@dataclass(frozen=True, slots=True)
class CollapseCheck:
    """The metric that a run must reach."""

    baseline: Baseline
    trivial: ConstantAnswer | None = None  # None: no constant answer is known for this task

    def check(self, *, step: int, epoch: float, value: float, best: float | None, last: bool) -> Collapse | None:
        """After an evaluation. `best`: the run's best before it; `last`: no other will follow."""
        expected: float | None
        if last:
            better = best is None or (math.isfinite(value) and self._lead(value, best) > 0)
            value, expected = value if best is None or better else best, self.baseline.value
        else:
            expected = self.baseline.expected(step) if epoch >= FIRST_CHECKED_EPOCH else None
        if expected is None:
            return None
        return self._below(step, value, expected, last=last) or self._constant(step, value, expected, last=last)

    def may_be_best(self, value: float) -> bool:
        """May it become the best? Not while a constant answer does as well, if that is no collapse yet."""
        if self.trivial is None:
            return True
        more_is_possible = self._lead(self.baseline.value, self.trivial.value) > self.baseline.noise
        return self._lead(value, self.trivial.value) > (self.baseline.noise if more_is_possible else 0.0)

    def _below(self, step: int, value: float, expected: float, *, last: bool) -> Collapse | None:
        """Worse than the baseline by more than its noise. A non-finite value is worse than any."""
        baseline = self.baseline
        if math.isfinite(value) and self._lead(value, expected) >= -baseline.noise:
            return None
        metric = baseline.metric
        reached = f"{expected:.4g}, which it had after {step // LAG:,} to {step:,} steps"
        there = f"its best, {expected:.4g}" if last else reached
        sentence = (
            f"{_shown(step, metric, value, last)} is worse than the baseline {baseline.name} ({there}) by more than "
            f"its seed noise of {baseline.noise:.2g} ({baseline.noise_from})."
        )
        return Collapse("baseline", step, metric, value, expected, baseline.noise, sentence)

    def _constant(self, step: int, value: float, expected: float, *, last: bool) -> Collapse | None:
        """As good as a constant answer, within the noise, where the baseline shows that more can be had. Where the
        baseline was no better itself, only an end that is not better at all is called a collapse."""
        trivial, baseline = self.trivial, self.baseline
        if trivial is None:
            return None
        more_is_possible = self._lead(expected, trivial.value) > baseline.noise
        lead = self._lead(value, trivial.value)
        if not (lead <= baseline.noise if more_is_possible else last and lead <= 0):
            return None
        had = f"the baseline {baseline.name} had {expected:.4g}"
        better = had if more_is_possible else f"and nor is the baseline {baseline.name}"
        sentence = (
            f"{_shown(step, baseline.metric, value, last)} is no better than a constant answer ({trivial.answer}: "
            f"{trivial.value:.4g}; seed noise {baseline.noise:.2g}); {better}."
        )
        return Collapse("constant", step, baseline.metric, value, trivial.value, baseline.noise, sentence)

    def _lead(self, value: float, other: float) -> float:
        return value - other if self.baseline.higher_is_better else other - value


def _shown(step: int, metric: str, value: float, last: bool) -> str:
    best = f"The best validation {metric} of the run, {value:.4g},"
    return best if last else f"Validation {metric} {value:.4g} at step {step:,}"
