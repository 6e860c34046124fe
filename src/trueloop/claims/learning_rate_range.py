"""learning-rate-range: the model learns at the recipe's learning rate, which is below those at which it diverges.

A range test: the learning rate rises a little in each step, from far too low to far too high. The loss stays constant,
falls, and rises again; where it falls fastest and where it diverges show the useful rates. Losses differ between
batches: the spread is measured while the rate is still too low to matter, and smaller changes are ignored.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean, pstdev
from typing import ClassVar, Final, final

from trueloop.claims.claim import Claim
from trueloop.claims.subject import RecipeSubject
from trueloop.claims.training_step import apply_update, backward, micro_batches_at
from trueloop.engine.torch_settings import torch_settings
from trueloop.results.proof import Cause, Proof

__all__ = ["LearningRateRange"]

LOWEST, HIGHEST = 1e-7, 10.0  # rates tried for any optimizer
AROUND: Final = 1e3  # tried at least this factor below the recipe's rate, and a hundredth of it above
PER_DECADE: Final = 10  # steps per factor of ten: each rate moves the weights about as far as all lower ones together
QUIET: Final = 15  # first losses, at rates without effect: their spread is that of the batches
WINDOW: Final = 5  # losses averaged, centered: half a decade of rates
SURE: Final = 6.0  # standard errors of such an average: less may be chance
VISIBLE: Final = 0.01  # of the first loss: a smaller fall means nothing
LOST: Final = 0.9  # of the fall; once it is lost again, the loss diverges
LOWER: Final = 1e-5  # times the lowest rate, for a second try where the loss is NaN before it has fallen
TOO_LOW: Final = 100.0  # times below the rate of the fastest fall

HIGH = Cause("the learning rate is too high", "try a rate of the recommended range: `--set lr=...`")
LOW = Cause("the learning rate is too low", "try a rate of the recommended range: `--set lr=...`")
SCALE = Cause("inputs, targets or the loss have an unusual scale", "normalize them: mean 0 and standard deviation 1")
OPTIMIZER = Cause("the rate was meant for another optimizer", "usual: 1e-4 to 1e-2 for adam, adamw; 1e-2 to 1 for sgd")


@final
class LearningRateRange(Claim):
    name = "learning-rate-range"
    healthy = f"the learning rate is below divergence, and at most {TOO_LOW:g} times below the rate of the fastest fall"
    causes: ClassVar[tuple[Cause, ...]] = (HIGH, LOW, SCALE, OPTIMIZER)

    def try_recipe(self, subject: RecipeSubject) -> Proof:
        lr = subject.recipe.lr
        low, high = min(LOWEST, lr / AROUND), max(HIGHEST, lr * AROUND / 100)
        rates, losses = _curve(subject, low, high)
        if (read := read_curve(rates, losses)) is None and not math.isfinite(losses[-1]):
            rates, losses = _curve(subject, low * LOWER, high)
            read = read_curve(rates, losses)
        facts: dict[str, object] = {"lr": lr, "rates": rates, "losses": losses}
        if read is None:
            said = f"no rate from {rates[0]:.1g} to {rates[-1]:.1g} lowers the loss by more than the batches differ"
            return self.unproved(f"{said}: see the claim overfit-one-batch, or try `--set batch=...`", facts)
        facts |= {"steepest": read.steepest, "lowest_at": read.best, "diverges": read.diverges}
        facts |= {"recommended": read.recommended, "first_loss": read.start}
        return self._result(lr, read, facts | {"lowest_loss": read.lowest, "noise": read.noise})

    def _result(self, lr: float, read: Reading, facts: dict[str, object]) -> Proof:
        diverges = "does not diverge" if read.diverges is None else f"diverges at {read.diverges:.1g}"
        seen = f"the loss falls fastest at {read.steepest:.1g} and {diverges}"
        useful = f"useful rates: {read.recommended[0]:.1g} to {read.recommended[1]:.1g}"
        if read.diverges is not None and lr >= read.diverges:
            return self.fails(f"lr={lr:g} is too high: {seen}; {useful}", facts, (HIGH, SCALE, OPTIMIZER))
        if lr * TOO_LOW < read.steepest:
            seen += f", {read.steepest / lr:,.0f} times higher"
            return self.fails(f"lr={lr:g} is too low: {seen}; {useful}", facts, (LOW, SCALE, OPTIMIZER))
        return self.holds(f"lr={lr:g} is within range: {seen}; {useful}", facts)


def _curve(subject: RecipeSubject, low: float, high: float) -> tuple[list[float], list[float]]:
    """Rates, and the loss after the step with each; ends where the loss is not finite."""
    parts = subject.parts(compile="off", statistics_every=0)
    parts.into_training_mode()
    rates = [low * 10 ** (step / PER_DECADE) for step in range(math.ceil(PER_DECADE * math.log10(high / low)) + 1)]
    losses: list[float] = []
    with torch_settings(parts.precision, parts.recipe):
        for step, rate in enumerate([*rates, 0.0]):
            losses.append(float(backward(parts, micro_batches_at(parts, step))))
            if not math.isfinite(losses[-1]):
                break
            if step < len(rates):
                apply_update(parts, rate)
    return rates[: len(losses) - 1], losses[1:]


# -- the curve --


@dataclass(frozen=True)
class Reading:
    """What a curve of losses over learning rates shows."""

    start: float  # loss at rates without effect
    noise: float  # spread of single losses there
    steepest: float  # rate of the fastest fall
    best: float  # rate of the lowest loss
    lowest: float  # the lowest loss
    diverges: float | None  # first higher rate at which the loss is back at the start, or not finite; None: none

    @property
    def recommended(self) -> tuple[float, float]:
        """Up to a third of the diverging rate: a long run meets worse batches."""
        high = self.best if self.diverges is None else min(self.best, self.diverges / 3)
        return self.steepest / 10, high


def read_curve(rates: Sequence[float], losses: Sequence[float]) -> Reading | None:
    """None: the loss does not fall by more than chance."""
    finite = [loss for loss in losses if math.isfinite(loss)]
    if len(finite) <= QUIET:
        return None
    start, noise, half = mean(finite[:QUIET]), pstdev(finite[:QUIET]), WINDOW // 2
    sure = max(SURE * noise / math.sqrt(WINDOW), VISIBLE * abs(start))
    smooth = [mean(finite[max(0, at - half) : at + half + 1]) for at in range(len(finite))]
    fallen = next((at for at, loss in enumerate(smooth) if loss < start - sure), len(smooth))
    falls = ((at, start - min(smooth[:at], default=start)) for at in range(fallen, len(smooth)))
    high = next((at for at, fall in falls if start - smooth[at] < (1 - LOST) * fall), len(finite))
    best = min(range(high), key=smooth.__getitem__)
    last = min(best + 1, len(smooth) - half)
    slopes = {at: smooth[at + half] - smooth[at - half] for at in range(half, last)}
    if fallen == len(smooth) or not slopes:
        return None
    steepest = min(slopes, key=slopes.__getitem__)
    diverges = rates[high] if high < len(losses) else None
    return Reading(start, noise, rates[steepest], rates[best], smooth[best], diverges)
