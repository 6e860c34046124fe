"""DAT190 targets-exchanged-in-training: two targets change places in a part of the training samples.

What it sees
------------
Two columns of the targets whose order never changes in evaluation: the left shoulder lies left of the right one in
nearly every row. In training the order is the opposite in a quarter to three quarters of the rows, and the values of
both columns together are the same in both phases. After the training the model predicts nearly the same number for
both, although it has learned other columns.

Why it hurts
------------
A flip of a picture exchanges left and right: the left hand of the mirrored figure is the right hand of the original.
If only the coordinates are mirrored, half of the samples call it by the wrong name. Nothing in the picture tells the
two cases apart, so the model answers with the middle of both.

Evidence
--------
The columns, how often their order holds in evaluation and in training, and the median difference of the two in the
targets and in the predictions.

Use instead
-----------
    if flip:
        image = image.flip(-1)
        points[:, 0] = width - 1 - points[:, 0]
        points = points[[0, 2, 1, 4, 3]]        # left and right change places

When it is fine
---------------
Not reported: fewer than 100 rows in either phase, targets of different mean or spread in the two phases, a model that
tells the two columns apart (pictures that show which end is which), and one that has learned no other column.
"""

from typing import Final

from trueloop.event import RunEnded, TargetOrderCompared
from trueloop.rules.rule import Findings, Rule, Severity

__all__ = ["TargetsExchangedInTraining"]

SHOWN: Final = 4


class TargetsExchangedInTraining(Rule, code="DAT190", severity=Severity.WARNING):
    not_applicable = "no targets with several columns were seen in training and in evaluation"

    def __init__(self) -> None:
        self._compared: dict[int, TargetOrderCompared] = {}

    def on_target_order_compared(self, event: TargetOrderCompared) -> None:
        self._compared[event.model] = event

    def on_run_ended(self, end: RunEnded) -> Findings:
        for event in self._compared.values():
            if not event.exchanged:
                continue
            low, high, evaluated, trained, difference, predicted = max(event.exchanged, key=lambda pair: pair[4])
            others = len(event.exchanged) - 1
            also = f" (and {others} more pairs)" if others > 1 else " (and one more pair)" if others else ""
            yield self.finding(
                event,
                f"Target {low} is below target {high} in {evaluated:.0%} of {event.rows} evaluated rows, but in "
                f"{trained:.0%} of the training rows{also}. The model predicts nearly the same for both: they differ "
                f"by {predicted:.3g}, the targets by {difference:.3g}.",
                fix="Where an augmentation mirrors a sample, exchange the targets that change sides with it (left and "
                "right joints); otherwise compare how the two phases order their targets.",
                evidence={"pairs": [pair[:2] for pair in event.exchanged[:SHOWN]], "order_in_evaluation": evaluated,
                          "order_in_training": trained, "difference_of_targets": difference,
                          "difference_of_predictions": predicted},
            )  # fmt: skip
