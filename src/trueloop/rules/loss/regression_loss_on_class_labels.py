"""LOS104 regression-loss-on-class-labels: a regression loss treats class indices as amounts.

What it sees
------------
`mse_loss`, `l1_loss`, `smooth_l1_loss` or `huber_loss` between a row of logits and one class index per sample, which
broadcasts over the row; or against integer targets that the run uses as classes: it compares the argmax of the logits,
or a rounded prediction over evenly spread labels, with them.

Why it hurts
------------
Class indices are names, not amounts. A distance to them pulls every logit of a sample towards the class index, or
punishes mistaking 0 for 9 nine times as much as 0 for 1. The model learns averages of class indices.

Evidence
--------
The loss function, the shapes, the number of distinct targets and their range, and whether predictions are compared with
them.

Use instead
-----------
    F.cross_entropy(model(x), y)          # logits [batch, classes], integer class indices [batch]

When it is fine
---------------
Not reported: counts, ratings and other integer amounts; one-hot or soft targets with the shape of the logits (Brier
score); real/fake targets of a least-squares GAN.
"""

from typing import Final

from trueloop.event import LossComputed, Place
from trueloop.event.operation_names import DISTANCE_LOSSES
from trueloop.rules.rule import Findings, Rule, Severity, facts

__all__ = ["RegressionLossOnClassLabels"]

CALLS: Final = 2  # Calls that must show a class index broadcast over logits: regression targets may be integers once
LEAST_CLASSES: Final = 3
"""Two distinct targets, 0 and 1, may be yes/no, real/fake or a reward: a regression loss on those is valid."""


class RegressionLossOnClassLabels(Rule, code="LOS104", severity=Severity.ERROR):
    not_applicable = "no regression loss was called"

    def __init__(self) -> None:
        self._amounts: set[Place | None] = set()  # Lines whose targets were not integers in some call

    def on_loss_computed(self, event: LossComputed) -> Findings:
        if event.function not in DISTANCE_LOSSES or event.target_range is None or event.place in self._amounts:
            return
        if not event.target_integral or event.target_range[0] < 0:
            self._amounts.add(event.place)
            return
        over_row = _spread_over_rows(event)
        if over_row and not event.target_used_as_class:
            if self.count(event.place) < CALLS:
                return
        elif not event.target_used_as_class or (not over_row and event.target_distinct < LEAST_CLASSES):
            return
        outputs = f"{event.input_shape[1]} outputs" if _several_scores(event) else "one output"
        yield self.finding(
            event,
            f"`{event.function}` compares {outputs} per sample with class indices {event.target_range[0]:g} to "
            f"{event.target_range[1]:g} as if they were amounts.",
            fix="Use `cross_entropy(logits, y)`: one output per class, integer class indices of shape [batch].",
            evidence=facts(
                event,
                "function input_shape target_shape target_range",
                "distinct_targets=target_distinct compared_with_predictions=target_used_as_class",
            ),
            severity=Severity.WARNING if not _several_scores(event) else None,
        )


def _several_scores(event: LossComputed) -> bool:
    return len(event.input_shape) >= 2 and event.input_shape[1] > 1


def _spread_over_rows(event: LossComputed) -> bool:
    """[B, C] logits against several values below C of shape [B, 1]: every logit is pulled to the class index."""
    if not _several_scores(event) or event.target_range is None:
        return False
    batch, classes = event.input_shape[:2]
    shapes = len(event.input_shape) == 2 and event.target_shape == (batch, 1)
    few = event.target_distinct >= LEAST_CLASSES or event.target_used_as_class
    return shapes and few and event.target_range[1] < classes
