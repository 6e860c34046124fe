"""OPT104 learning-rate-too-high: steps throw the weights far off, and the loss jumps or swings instead of falling.

What it sees
------------
Two things at once. On several measured steps (or over the first few together) a step changed the weight matrices by
more than a tenth of their length, where a healthy one changes them by about a thousandth. And the loss has not come
below its beginning: it went far up first, ended higher, or swings by a factor within the last quarter of the run.

Why it hurts
------------
Each step overshoots: what the model had when it was initialised is destroyed in the first few steps, and then it jumps
around a minimum, or settles where nothing can be learnt any more (dead units, saturated scores), without ever becoming
infinite.

Evidence
--------
The weights' changes per step, by weight; the first losses, the highest level and the last quarter's median; the
learning rate.

Use instead
-----------
A learning rate ten times lower (1e-3 for Adam, 1e-2 to 1e-1 for SGD are usual), or a warm-up:

    torch.optim.AdamW(model.parameters(), lr=1e-3)

When it is fine
---------------
Large steps whose loss falls: toy problems, the first steps of a run, layers that begin at zero. Losses that are not
meant to fall are not judged: several optimizers (adversarial training), values learnt by bootstrapping, losses below
zero, losses that no function of PyTorch's computes, nor are closures (LBFGS), batches of fewer than 8 samples, whose
losses swing by themselves, and fewer than 30 losses."""

from __future__ import annotations

import math
from statistics import median
from typing import Final, final

from trueloop.event import LossComputed, LossCurve, RunEnded, WeightsMoved
from trueloop.finding import Finding, Severity
from trueloop.rules.rule import Findings, Rule

__all__ = ["LearningRateTooHigh"]

FAR: Final = 0.1
"""Change of a weight matrix by one step, over its length: a hundred times the healthy one."""
EARLY: Final = 10
"""Steps whose changes are taken together: Adam's weights have grown so much after those that its steps look small
beside them."""
LOOKS: Final = 3
"""Looks with far steps: one may be an accident."""
LOSSES: Final = 30
"""Losses before one says where they go."""
FALLEN: Final = 0.9
"""A loss below this share of the lowest of its first values has fallen."""
JUMP: Final = 3.0
"""How many times the end the highest level was: a batch of 8 does not move a median of five so far."""
CLIMB: Final = 2.0
"""How many times its first value the loss is at the end."""
SWING: Final = 4.0
"""How many times the low values the high ones of the last quarter are; of 16 squared errors by chance 2.5."""
BATCH, LARGE_BATCH = 8, 16
"""Samples per loss, for jumps and for swings."""
SCALE: Final = 1e-3
"""Root mean square below which a weight began at (nearly) zero: it has no length to compare with."""
MAIN: Final = 0.8
"""The share of all backwards that one line must have for its losses to be the loss."""


@final
class LearningRateTooHigh(Rule):
    code = "OPT104"
    name = "learning-rate-too-high"
    severity = Severity.WARNING
    not_applicable = "no step was measured"
    explained_by = (
        "loss-diverges", "nan-or-inf", "nan-or-inf-in-inputs", "gradients-never-cleared", "accumulation-not-averaged", "inputs-not-normalized",
        "shapes-broadcast-in-loss", "wrong-target-format", "logits-passed-as-probabilities", "clipped-before-unscale",
    )  # fmt: skip

    def __init__(self) -> None:
        self._looks: list[WeightsMoved] = []
        self._loss: LossCurve | None = None
        self._batch = 0
        """Fewest samples in a loss of PyTorch's; 0: none was computed."""

    def on_weights_moved(self, event: WeightsMoved) -> None:
        if any(move.update is not None for move in event.moves):
            self._looks.append(event)

    def on_loss_computed(self, event: LossComputed) -> None:
        if event.grad and event.input_shape:
            self._batch = min(self._batch or event.input_shape[0], event.input_shape[0])

    def on_loss_curve(self, event: LossCurve) -> None:
        self._loss = event

    def on_run_ended(self, event: RunEnded) -> Findings:
        loss = self._loss
        if loss is not None and self._is_meant_to_fall(loss) and self._is_restless(loss) and self._is_hot():
            yield self._say(loss)

    def why_not_checked(self) -> str:
        return (
            ""
            if self._looks and self._loss is not None and self._loss.seen >= LOSSES
            else f"fewer than {LOSSES} losses were seen"
        )

    def _is_meant_to_fall(self, loss: LossCurve) -> bool:
        """One optimizer, one loss, of PyTorch's, and targets that the model does not make itself in most steps."""
        alone = loss.optimizers == 1 and loss.share >= MAIN and 2 * loss.bootstrapped <= loss.step
        return alone and not loss.below_zero and not loss.closures and loss.seen >= LOSSES and self._batch >= BATCH

    def _is_restless(self, loss: LossCurve) -> bool:
        """Not below its beginning, and it went far up on the way, ended there, or swings."""
        if loss.end < FALLEN * min(loss.first):
            return False
        jumps = loss.peak >= JUMP * loss.end or loss.end >= CLIMB * loss.first[0]
        return jumps or (self._batch >= LARGE_BATCH and loss.swing >= SWING)

    def _is_hot(self) -> bool:
        """The typical weight was moved far by each of the latest steps, or by the first ones together."""
        early = [change for look in self._looks if look.steps <= EARLY for change in _typical(look, early=True)]
        late = [change for look in self._looks for change in _typical(look, early=False)]
        return bool(early and max(early) > FAR) or (len(late) >= LOOKS and median(late[len(late) // 3 :]) > FAR)

    def _say(self, loss: LossCurve) -> Finding:
        look = self._looks[0]
        moved = {move.name or "?": float(f"{move.distance:.3g}") for move in look.moves if move.rms >= SCALE}
        latest = {
            move.name or "?": float(f"{move.update or 0:.3g}") for move in self._looks[-1].moves if move.rms >= SCALE
        }
        rate = max(look.learning_rate for look in self._looks)
        highest = max(loss.peak, *loss.first)
        return self.finding(
            look,
            f"The first {look.steps} steps moved the weights by {median(moved.values()):.3g} times their own length, at a learning rate of "
            f"{rate:g}, and the loss went from {loss.first[0]:.4g} up to {highest:.4g} and is {loss.end:.4g} at the end.",
            fix="Lower the learning rate ten times, to begin with, or warm it up.",
            evidence={
                "learning_rate": rate,
                "moved_in_the_first_steps": moved,
                "moved_by_the_latest_measured_step": latest,
                "first_losses": [float(f"{value:.6g}") for value in loss.first],
                "highest_level": float(f"{loss.peak:.6g}"),
                "last_quarter": float(f"{loss.end:.6g}"),
                "swing": float(f"{loss.swing:.4g}"),
                "backwards": loss.count,
            },
        )


def _typical(look: WeightsMoved, *, early: bool) -> list[float]:
    """The median change per step over the weights that have a scale; empty if none has."""
    moves = [move for move in look.moves if move.rms >= SCALE]
    changes = [move.distance / look.steps if early else move.update for move in moves]
    known = [change for change in changes if change is not None and math.isfinite(change)]
    return [median(known)] if known else []
