"""learning-rate-range: the recipe's learning rate is one at which this model learns on these data, and below those at
which it diverges.

A range test: the rate rises from far too low to far too high, a little in each step, while the loss of each step is
noted. It stays where it is, falls, and rises again; where it falls fastest and where it diverges tell which rates are
of use. Batches differ, and so do their losses: how much, is seen while the rate is still too low to change anything,
and what is no larger than that is not read as a fall.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean, pstdev
from typing import ClassVar, Final, final

from trueloop.claims.claim import Claim
from trueloop.claims.steps import backward, micros_at, update
from trueloop.claims.subject import RecipeSubject
from trueloop.engine.torch_settings import torch_settings
from trueloop.results.proof import Cause, Proof

__all__ = ["LearningRateRange"]

LOWEST, HIGHEST = 1e-7, 10.0
"""Rates that are tried, whatever the optimizer: hardly any model learns below, or survives above."""
AROUND: Final = 1e3
"""At least so many times lower, and a hundredth of that higher, than the recipe's own."""
PER_DECADE: Final = 10
"""Steps in which the rate grows tenfold: each rate then moves the weights about as far as all lower ones together."""
QUIET: Final = 15
"""Losses from the first, at rates that change nothing yet: their spread is that of the batches."""
WINDOW: Final = 5
"""Losses that are averaged: half a decade of rates, centred, so that nothing is read too late."""
SURE: Final = 6.0
"""Times the spread of an average of as many losses: less may be chance, with some seventy averages and a spread known
from few losses."""
VISIBLE: Final = 0.01
"""Of the first loss: a fall that is smaller says nothing, however little the batches differ."""
LOST: Final = 0.9
"""Of the fall, once it is lost again: some losses cannot rise above where they began, and those that can soon will."""
LOWER: Final = 1e-5
"""Times the lowest rate, for a second try where the loss is no number before it has fallen: data far from the usual
scale."""
TOO_LOW: Final = 100.0
"""Times lower than where the loss falls fastest: what a step does there takes a hundred of the recipe's."""

HIGH: Final = Cause("the learning rate is too high", "try a rate of the recommended range: --set lr=...")
LOW: Final = Cause("the learning rate is too low", "try a rate of the recommended range: --set lr=...")
SCALE: Final = Cause(
    "inputs, targets or the loss are on another scale than usual", "look at them: mean 0 and spread 1 suit usual rates"
)
OTHER_OPTIMIZER: Final = Cause(
    "the rate was meant for another optimizer", "usual are 1e-4 to 1e-2 for adam and adamw, 1e-2 to 1 for sgd"
)


@final
class LearningRateRange(Claim):
    name = "learning-rate-range"
    healthy = f"the learning rate lies below where the loss diverges, and not more than {TOO_LOW:g} times below where it falls fastest"
    causes: ClassVar[tuple[Cause, ...]] = (HIGH, LOW, SCALE, OTHER_OPTIMIZER)

    def of_recipe(self, subject: RecipeSubject) -> Proof:
        lr = subject.recipe.lr
        low, high = min(LOWEST, lr / AROUND), max(HIGHEST, lr * AROUND / 100)
        rates, losses = _curve(subject, low, high)
        if (read := read_off(rates, losses)) is None and not math.isfinite(losses[-1]):
            rates, losses = _curve(subject, low * LOWER, high)
            read = read_off(rates, losses)
        curve: dict[str, object] = {"rates": rates, "losses": losses}
        if read is None:
            return self.unproved(
                f"no rate from {rates[0]:.1g} to {rates[-1]:.1g} lowers the loss by more than its batches differ: "
                "see the claim overfit-one-batch, or try a larger batch, --set batch=...",
                {"lr": lr} | curve,
            )
        facts: dict[str, object] = {
            "lr": lr,
            "steepest": read.steepest,
            "lowest_at": read.best,
            "diverges": read.diverges,
            "recommended": read.recommended,
        }
        facts |= {"first_loss": read.start, "lowest_loss": read.lowest, "noise": read.noise}
        return self._judged(lr, read, facts | curve)

    def _judged(self, lr: float, read: Reading, facts: dict[str, object]) -> Proof:
        ends = f"{read.recommended[0]:.1g} to {read.recommended[1]:.1g}"
        seen = f"the loss falls fastest at {read.steepest:.1g} and " + (
            f"diverges at {read.diverges:.1g}" if read.diverges is not None else "does not diverge"
        )
        if read.diverges is not None and lr >= read.diverges:
            return self.fails(
                f"lr={lr:g} is too high: {seen}; of use are {ends}", facts, (HIGH, SCALE, OTHER_OPTIMIZER)
            )
        if lr * TOO_LOW < read.steepest:
            return self.fails(
                f"lr={lr:g} is too low: {seen}, {read.steepest / lr:,.0f} times above; of use are {ends}",
                facts,
                (LOW, SCALE, OTHER_OPTIMIZER),
            )
        return self.holds(f"lr={lr:g} is within range: {seen}; of use are {ends}", facts)


def _curve(subject: RecipeSubject, low: float, high: float) -> tuple[list[float], list[float]]:
    """Rates, and the loss after the step with each; shorter where the loss becomes no number."""
    parts = subject.parts(compile="off", statistics_every=0)
    parts.into_training_mode()
    rates = [low * 10 ** (step / PER_DECADE) for step in range(math.ceil(PER_DECADE * math.log10(high / low)) + 1)]
    losses: list[float] = []
    with torch_settings(parts.precision, parts.recipe):
        for step, rate in enumerate([*rates, 0.0]):
            losses.append(float(backward(parts, micros_at(parts, step))))
            if not math.isfinite(losses[-1]):
                break
            if step < len(rates):
                update(parts, rate)
    return rates[: len(losses) - 1], losses[1:]  # a loss is that of the steps before it


# -- the curve --


@dataclass(frozen=True)
class Reading:
    """What a curve of losses over rates says."""

    start: float
    """The loss while nothing moves."""
    noise: float
    """How far single losses lie apart there."""
    steepest: float
    """The rate at which it falls fastest."""
    best: float
    """The rate at which it is lowest,"""
    lowest: float
    """and how low."""
    diverges: float | None
    """The first rate above that at which it is back where it began, or no number; None: there is none."""

    @property
    def recommended(self) -> tuple[float, float]:
        """From where a run of usual length gets somewhere, to a third of what diverges: a long run meets worse
        batches."""
        high = self.best if self.diverges is None else min(self.best, self.diverges / 3)
        return self.steepest / 10, high


def read_off(rates: Sequence[float], losses: Sequence[float]) -> Reading | None:
    """None: the loss does not fall by more than chance."""
    numbers = [loss for loss in losses if math.isfinite(loss)]
    if len(numbers) <= QUIET:
        return None
    start, noise = mean(numbers[:QUIET]), pstdev(numbers[:QUIET])
    sure = max(SURE * noise / math.sqrt(WINDOW), VISIBLE * abs(start))
    smooth = [mean(numbers[max(0, at - WINDOW // 2) : at + WINDOW // 2 + 1]) for at in range(len(numbers))]
    fallen = next((at for at, loss in enumerate(smooth) if loss < start - sure), len(smooth))
    lost = (
        at
        for at in range(fallen, len(smooth))
        if start - smooth[at] < (1 - LOST) * (start - min(smooth[:at], default=start))
    )
    high = next(lost, len(numbers))
    best = min(range(high), key=smooth.__getitem__)
    slopes = {
        at: smooth[at + WINDOW // 2] - smooth[at - WINDOW // 2]
        for at in range(WINDOW // 2, min(best + 1, len(smooth) - WINDOW // 2))
    }
    if fallen == len(smooth) or not slopes:
        return None
    steepest = min(slopes, key=slopes.__getitem__)
    return Reading(
        start, noise, rates[steepest], rates[best], smooth[best], rates[high] if high < len(losses) else None
    )
