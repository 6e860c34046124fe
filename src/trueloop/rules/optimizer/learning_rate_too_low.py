"""OPT105 learning-rate-too-low: over the whole run the weights have hardly moved, though the loss would change if they
did.

What it sees
------------
A copy of some numbers of some weights, taken at the first step, against the same numbers at the end. None of the
weights has moved by a tenth of what a single healthy step does; the gradients are there, and long enough that the loss
depends on the weights; and the loss is where it began.

Why it hurts
------------
Nothing is learnt: the run costs what it costs and gives back the model it began with. In a mixed-up exponent or a
schedule that is multiplied in twice this looks like a model that cannot learn.

Evidence
--------
How far each weight has moved, in how many steps, the learning rate, and the first and last losses.

Use instead
-----------
A learning rate at which one step changes the weights by about a thousandth of their length (1e-3 for Adam, 1e-2 to 1e-1
for SGD are usual).

When it is fine
---------------
Fewer than a hundred steps, a warm-up that is still rising, a rate that has decayed after the weights had moved (the
whole way counts), a loss that falls all the same, and a model that begins at its optimum, where the gradient is short,
are not reported; nor are several optimizers, closures, and weights that begin at zero."""

from __future__ import annotations

from statistics import median
from typing import Final, final

from trueloop.event import LossCurve, RunEnded, WeightsMoved
from trueloop.finding import Severity
from trueloop.rules.rule import Findings, Rule

__all__ = ["LearningRateTooLow"]

STILL: Final = 1e-4
"""The way of a weight, over its length, that is no way: a tenth of what one healthy step makes."""
STEPS: Final = 100
"""Steps before one says that nothing moves."""
FALLEN: Final = 0.97
"""A loss below this share of its first ones has improved."""
DEPENDS: Final = 0.05
"""By how much of itself the loss changes, to first order, if the weights change by their own length: near one at random
weights, and near zero at an optimum."""
RISING: Final = 1.5
"""How many times its median over the run the learning rate is at the end of a warm-up that is not over."""
SCALE: Final = 1e-3
"""Root mean square below which a weight began at (nearly) zero: it has no length to compare with."""
MAIN: Final = 0.8
"""The share of all backwards that one line must have for its losses to be the loss."""


@final
class LearningRateTooLow(Rule):
    code = "OPT105"
    name = "learning-rate-too-low"
    severity = Severity.WARNING
    not_applicable = "no step was measured"
    explained_by = (
        "step-without-gradient", "gradients-cleared-before-step", "loss-detached-from-parameters", "parameters-never-trained", "weights-in-half",
        "optimizer-holds-old-parameters", "optimizer-built-each-step", "vanishing-gradients", "steps-skipped", "schedule-out-of-time",
    )  # fmt: skip

    def __init__(self) -> None:
        self._looks: list[WeightsMoved] = []
        self._loss: LossCurve | None = None

    def on_weights_moved(self, event: WeightsMoved) -> None:
        self._looks.append(event)

    def on_loss_curve(self, event: LossCurve) -> None:
        self._loss = event

    def on_run_ended(self, event: RunEnded) -> Findings:
        loss = self._loss
        if loss is None or not self._looks or event.reason not in ("finished", "exit"):
            return
        last, began = self._looks[-1], median(loss.first)
        ways = {move.name or "?": move.distance for move in last.moves if move.rms >= SCALE}
        if last.steps < STEPS or not ways or not max(ways.values()) < STILL or self._is_warming_up():
            return
        alone = loss.optimizers == 1 and loss.share >= MAIN and not loss.below_zero and not loss.closures
        fallen = loss.end < FALLEN * began and loss.end < min(
            loss.first
        )  # batches differ, also where nothing is learnt
        if not alone or fallen or not self._depends(began):
            return
        rate = max(look.learning_rate for look in self._looks)
        yield self.finding(
            last,
            f"After {last.steps} steps at a learning rate of {rate:.3g} no weight has moved by more than {max(ways.values()):.1g} of its "
            f"length, and the loss went from {began:.5g} to {loss.end:.5g}.",
            fix="Raise the learning rate until one step changes the weights by about a thousandth of their length.",
            evidence={
                "steps": last.steps,
                "moved": {name: float(f"{way:.3g}") for name, way in ways.items()},
                "highest_learning_rate": rate,
                "last_learning_rate": last.learning_rate,
                "first_losses": [float(f"{value:.6g}") for value in loss.first],
                "last_quarter": float(f"{loss.end:.6g}"),
            },
        )

    def why_not_checked(self) -> str:
        steps = max((look.steps for look in self._looks), default=0)
        return "" if steps >= STEPS else f"fewer than {STEPS} steps were taken"

    def _is_warming_up(self) -> bool:
        rates = [look.learning_rate for look in self._looks]
        return rates[-1] > RISING * median(rates)

    def _depends(self, loss: float) -> bool:
        """Would the loss change if the weights did?"""
        pulls = [
            sum(move.gradient_times_weight for move in look.moves if move.gradient_times_weight is not None)
            for look in self._looks
        ]
        return max(pulls, default=0.0) >= DEPENDS * loss
