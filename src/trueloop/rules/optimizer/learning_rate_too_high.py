"""OPT104 learning-rate-too-high: updates are far too large, and the loss jumps or oscillates instead of falling.

What it sees
------------
Two things together. In several measured steps (or over the first few steps) an update changed the weight matrices by
more than 10% of their norm, where about 0.1% is healthy. And the loss is not below its start: it first rose far, ended
higher, or oscillates by a factor in the last quarter of the run.

Why it hurts
------------
Each step overshoots. The first steps destroy the initialization; then the model jumps around a minimum, or ends where
it can no longer learn (dead units, saturated activations), without the loss ever becoming infinite.

Evidence
--------
The relative change per step of each weight; the first losses, the peak and the median of the last quarter; the learning
rate.

Use instead
-----------
A learning rate ten times lower (usual: 1e-3 for Adam, 1e-2 to 1e-1 for SGD), or warmup:

    torch.optim.AdamW(model.parameters(), lr=1e-3)

When it is fine
---------------
Not reported: large steps whose loss falls (toy problems, first steps, layers that start at zero). Not checked: losses
that need not fall (several optimizers, bootstrapped values), negative losses, losses that no PyTorch function computes,
closures (LBFGS), batches of fewer than 8 samples, and fewer than 30 losses.
"""

import math
from statistics import median
from typing import Final

from trueloop.event import Backward, LossComputed, LossCurve, RunEnded, Stepped, WeightsMoved
from trueloop.rules.rule import Finding, Findings, Rule, Severity
from trueloop.rules.shared_thresholds import MAIN_LINE, NEAR_ZERO
from trueloop.rules.summed_loss import SummedLoss

__all__ = ["LearningRateTooHigh"]

FAR: Final = 0.1  # Relative change of a weight matrix in one step: 100 times the healthy one
EARLY: Final = 10  # First steps, measured together: later the weights of Adam have grown so that its steps look small
LOOKS: Final = 3  # Measurements with large steps: one may be an accident
LOSSES: Final = 30  # Losses needed to see their trend
FALLEN: Final = 0.9  # A loss below this share of the lowest first value has fallen
JUMP: Final = 3.0  # Peak over final loss: a batch of 8 does not move a median of five that far
CLIMB: Final = 2.0  # Final loss over first loss
SWING: Final = 4.0  # High over low values in the last quarter; 2.5 is chance for 16 squared errors
BATCH, LARGE_BATCH = 8, 16  # Samples per loss needed, for jumps and for swings


class LearningRateTooHigh(Rule, code="OPT104", severity=Severity.WARNING):
    not_applicable = "no step was measured"
    explained_by = (
        "loss-diverges", "nan-or-inf", "nan-or-inf-in-inputs", "gradients-never-cleared", "accumulation-not-averaged",
        "inputs-not-normalized", "shapes-broadcast-in-loss", "wrong-target-format", "logits-passed-as-probabilities",
        "clipped-before-unscale",
    )  # fmt: skip

    def __init__(self) -> None:
        self._looks: list[WeightsMoved] = []
        self._loss: LossCurve | None = None
        self._summed = SummedLoss()
        self._batch = 0  # Fewest samples in a loss from a PyTorch function; 0: none was computed

    def on_weights_moved(self, event: WeightsMoved) -> None:
        if any(move.update is not None for move in event.moves):
            self._looks.append(event)

    def on_loss_computed(self, event: LossComputed) -> None:
        self._summed.hear_loss(event)
        if event.grad and event.input_shape:
            self._batch = min(self._batch or event.input_shape[0], event.input_shape[0])

    def on_backward(self, event: Backward) -> None:
        self._summed.hear_backward(event)

    def on_stepped(self, event: Stepped) -> None:
        self._summed.hear_step(event)

    def on_loss_curve(self, event: LossCurve) -> None:
        self._loss = event

    def on_run_ended(self, event: RunEnded) -> Findings:
        loss = self._loss
        if loss is not None and self._should_fall(loss) and self._is_unstable(loss) and self._has_large_updates():
            yield self._report(loss)

    def why_not_checked(self) -> str:
        enough = self._looks and self._loss is not None and self._loss.seen >= LOSSES
        return "" if enough else f"fewer than {LOSSES} losses were seen"

    def _should_fall(self, loss: LossCurve) -> bool:
        """One optimizer, one loss from PyTorch, and targets that the model does not compute itself in most steps."""
        alone = loss.optimizers == 1 and loss.share >= MAIN_LINE and 2 * loss.bootstrapped <= loss.step
        return alone and not loss.below_zero and not loss.closures and loss.seen >= LOSSES and self._batch >= BATCH

    def _is_unstable(self, loss: LossCurve) -> bool:
        """Not below its start, and it rose far, ended high, or oscillates."""
        if loss.end < FALLEN * min(loss.first):
            return False
        jumps = loss.peak >= JUMP * loss.end or loss.end >= CLIMB * loss.first[0]
        return jumps or (self._batch >= LARGE_BATCH and loss.swing >= SWING)

    def _has_large_updates(self) -> bool:
        """The median weight changed strongly in each of the latest steps, or in the first steps together."""
        early = [change for look in self._looks if look.steps <= EARLY for change in _typical(look, early=True)]
        late = [change for look in self._looks for change in _typical(look, early=False)]
        return bool(early and max(early) > FAR) or (len(late) >= LOOKS and median(late[len(late) // 3 :]) > FAR)

    def _report(self, loss: LossCurve) -> Finding:
        look = self._looks[0]
        moved = {move.name or "?": float(f"{move.distance:.3g}") for move in look.moves if move.rms >= NEAR_ZERO}
        moves = [move for move in self._looks[-1].moves if move.rms >= NEAR_ZERO]
        latest = {move.name or "?": float(f"{move.update or 0:.3g}") for move in moves}
        rate = max(look.learning_rate for look in self._looks)
        highest = max(loss.peak, *loss.first)
        return self.finding(
            look,
            f"At a learning rate of {rate:g} the first {look.steps} steps changed the weights by "
            f"{median(moved.values()):.3g} times their norm. The loss went from {loss.first[0]:.4g} up to "
            f"{highest:.4g} and ended at {loss.end:.4g}.{self._summed.message()}",
            fix=f"{self._summed.fix(rate)}Try a ten times lower learning rate (`lr={rate / 10:g}`), or add warmup.",
            evidence={
                "learning_rate": rate,
                "loss_is_a_sum": self._summed.is_cause,
                "change_in_first_steps": moved,
                "change_in_last_measured_step": latest,
                "first_losses": [float(f"{value:.6g}") for value in loss.first],
                "peak": float(f"{loss.peak:.6g}"),
                "last_quarter": float(f"{loss.end:.6g}"),
                "swing": float(f"{loss.swing:.4g}"),
                "backwards": loss.count,
            },
        )


def _typical(look: WeightsMoved, *, early: bool) -> list[float]:
    """The median change per step over the weights that did not start at zero; empty if all did."""
    moves = [move for move in look.moves if move.rms >= NEAR_ZERO]
    changes = [move.distance / look.steps if early else move.update for move in moves]
    known = [change for change in changes if change is not None and math.isfinite(change)]
    return [median(known)] if known else []
