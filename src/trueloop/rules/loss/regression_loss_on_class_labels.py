"""LOS104 regression-loss-on-class-labels: the distance to a class number is minimised, as if class 9 lay further from 0
than class 1.

What it sees
------------
`mse_loss`, `l1_loss`, `smooth_l1_loss` or `huber_loss` between a row of scores per sample and one class number per
sample, which is spread over the row; or against whole numbers that the run uses as classes: the arg-maximum of the
scores, or a rounded prediction over evenly spread labels, is compared with them.

Why it hurts
------------
Class numbers are names. A distance to them asks every score of a sample to become the class number, or punishes
mistaking 0 for 9 nine times as much as 0 for 1: the model learns averages of class numbers.

Evidence
--------
The loss function, the shapes, how many distinct targets there were and their range, and whether predictions are
compared with them.

Use instead
-----------
    F.cross_entropy(model(x), y)          # scores [batch, classes], y whole numbers [batch]

When it is fine
---------------
Counts, ratings and other amounts that happen to be whole; one-hot or soft targets of the shape of the scores (Brier
score); real/fake targets of a least-squares GAN.
"""

from __future__ import annotations

from typing import Final, final

from trueloop.event import LossComputed, Place
from trueloop.finding import Severity
from trueloop.rules.rule import Findings, Rule

__all__ = ["RegressionLossOnClassLabels"]

CALLS: Final = 2
"""Calls that must show one class number spread over a row of scores: targets of regression may be whole once."""
LEAST_CLASSES: Final = 3
"""Two distinct targets, 0 and 1, may be yes and no, real and fake, or a reward: a distance to those is sound."""

_DISTANCES: Final = ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss")


@final
class RegressionLossOnClassLabels(Rule):
    code = "LOS104"
    name = "regression-loss-on-class-labels"
    severity = Severity.ERROR
    not_applicable = "no distance loss was called"

    def __init__(self) -> None:
        self._amounts: set[Place | None] = set()
        """Places whose targets were not whole numbers at some call."""
        self._spread: dict[Place | None, int] = {}

    def on_loss_computed(self, event: LossComputed) -> Findings:
        if event.function not in _DISTANCES or event.target_range is None or event.place in self._amounts:
            return
        if not event.target_integral or event.target_range[0] < 0:
            self._amounts.add(event.place)
            return
        over_row = _spread_over_rows(event)
        if over_row and not event.target_used_as_class:
            self._spread[event.place] = self._spread.get(event.place, 0) + 1
            if self._spread[event.place] < CALLS:
                return
        elif not event.target_used_as_class or (not over_row and event.target_distinct < LEAST_CLASSES):
            return
        yield self.finding(
            event,
            f"{event.function} measures the distance from {_scores(event)} to class numbers "
            f"{event.target_range[0]:g} to {event.target_range[1]:g}, as if classes were amounts.",
            fix="Use cross_entropy: one score per class, and the class numbers as whole-number targets of shape [batch].",
            evidence={
                "function": event.function,
                "input_shape": list(event.input_shape),
                "target_shape": list(event.target_shape),
                "target_range": event.target_range,
                "distinct_targets": event.target_distinct,
                "compared_with_predictions": event.target_used_as_class,
            },
            severity=Severity.WARNING if not _several_scores(event) else None,
        )


def _several_scores(event: LossComputed) -> bool:
    return len(event.input_shape) >= 2 and event.input_shape[1] > 1


def _spread_over_rows(event: LossComputed) -> bool:
    """[B, C] scores against [B, 1] numbers below C, of several kinds: each score of a row is pulled to the number of
    the class."""
    if not _several_scores(event) or event.target_range is None:
        return False
    batch, classes = event.input_shape[:2]
    shapes = len(event.input_shape) == 2 and event.target_shape == (batch, 1)
    few = event.target_distinct >= LEAST_CLASSES or event.target_used_as_class
    return shapes and few and event.target_range[1] < classes


def _scores(event: LossComputed) -> str:
    return f"{event.input_shape[1]} scores per sample" if _several_scores(event) else "one number per sample"
