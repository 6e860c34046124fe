"""OPT105 learning-rate-too-low: the weights hardly changed over the run, although the loss depends on them.

What it sees
------------
A sample of some weights at the first step is compared with the end of the run. No weight changed by even a tenth of one
healthy step (by a hundredth of its norm, for Adam at a learning rate of 5e-6 or less on weights that were not loaded),
the gradients are large enough that the loss depends on the weights, and the loss is where it started.

Why it hurts
------------
The model learns nothing: the run ends with the model it started with. A wrong exponent or a schedule multiplied twice
then looks like a model that cannot learn.

Evidence
--------
How far each weight moved, the number of steps, the learning rate, and the first and last losses.

Use instead
-----------
A learning rate at which one step changes the weights by about 0.1% of their norm (usual: 1e-3 for Adam, 1e-2 to 1e-1
for SGD).

When it is fine
---------------
Not reported: fewer than 100 steps, a warmup that is still rising, a learning rate that decayed after the weights had
moved, a loss that still falls, a model that starts at its optimum (small gradients), several optimizers, closures, and
weights that start at zero.
"""

from statistics import median
from typing import Final

from trueloop.event import SCALE_FREE, LossCurve, OptimizerSettings, RunEnded, WeightsMoved
from trueloop.rules.rule import Findings, Rule, Severity
from trueloop.rules.shared_thresholds import MAIN_LINE, NEAR_ZERO

__all__ = ["LearningRateTooLow"]

STILL: Final = 1e-4  # Relative change of a weight over the run: a tenth of one healthy step
STILL_AT_TINY_RATE: Final = 0.01
TINY_RATE: Final = 5e-6  # Of Adam and its kin: fine-tuning uses it, a model with initial weights does not
STEPS: Final = 100  # Steps needed to conclude that nothing moves
FALLEN: Final = 0.97  # A loss below this share of the first losses has improved
DEPENDS: Final = 0.05
"""Relative first-order change of the loss if the weights change by their norm: about 1 at random weights, 0 at an
optimum."""
RISING: Final = 1.5  # Last learning rate over its median, in a warmup that has not ended


class LearningRateTooLow(Rule, code="OPT105", severity=Severity.WARNING):
    not_applicable = "no step was measured"
    explained_by = (
        "step-without-gradient", "gradients-cleared-before-step", "loss-detached-from-parameters", "unused-parameters",
        "weights-in-half-precision", "optimizer-holds-old-parameters", "optimizer-recreated-every-step",
        "vanishing-gradients", "grad-scaler-skips-steps", "scheduler-epoch-batch-mismatch", "learning-rate-collapsed",
    )  # fmt: skip

    def __init__(self) -> None:
        self._looks: list[WeightsMoved] = []
        self._loss: LossCurve | None = None
        self._tiny = False

    def on_weights_moved(self, event: WeightsMoved) -> None:
        self._looks.append(event)

    def on_loss_curve(self, event: LossCurve) -> None:
        self._loss = event

    def on_optimizer_settings(self, event: OptimizerSettings) -> None:
        self._tiny = event.name in SCALE_FREE and event.highest_rate <= TINY_RATE and not event.loaded

    def on_run_ended(self, event: RunEnded) -> Findings:
        loss = self._loss
        if loss is None or not self._looks or event.reason not in ("finished", "exit"):
            return
        last, began = self._looks[-1], median(loss.first)
        ways = {move.name or "?": move.distance for move in last.moves if move.rms >= NEAR_ZERO}
        still = STILL_AT_TINY_RATE if self._tiny and last.steps >= 2 * STEPS else STILL
        if last.steps < STEPS or not ways or not max(ways.values()) < still or self._is_warming_up():
            return
        alone = loss.optimizers == 1 and loss.share >= MAIN_LINE and not loss.below_zero and not loss.closures
        fallen = loss.end < min(FALLEN * began, *loss.first)  # losses of batches differ even if nothing is learned
        if not alone or fallen or not self._depends(began):
            return
        rate = max(look.learning_rate for look in self._looks)
        yield self.finding(
            last,
            f"{last.steps} steps at a learning rate of {rate:.3g} changed no weight by more than "
            f"{max(ways.values()):.1g} of its norm. The loss went from {began:.5g} to {loss.end:.5g}.",
            fix="Raise `lr` until one step changes the weights by about 0.1% of their norm.",
            evidence={
                "steps": last.steps,
                "change": {name: float(f"{way:.3g}") for name, way in ways.items()},
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
        """Would the loss change if the weights changed?"""
        pulls = [
            sum(move.gradient_times_weight for move in look.moves if move.gradient_times_weight is not None)
            for look in self._looks
        ]
        return max(pulls, default=0.0) >= DEPENDS * loss
