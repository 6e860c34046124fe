"""MOD107 majority-class-predicted: every prediction is the most frequent class, and the accuracy hides it.

What it sees
------------
In the recorded evaluations after the training has begun, all predicted classes that are compared with the labels are
the same one, while the labels have several classes, one of them far more frequent than the others.

Why it hurts
------------
On data with 97 % of one class, a model that always answers with that class has an accuracy of 0.97 and finds nothing.
The number looks like success; recall of the rare class is zero.

Evidence
--------
The class that is predicted, and its share of the labels, which is the accuracy.

Use instead
-----------
Report recall and precision per class or the balanced accuracy, and give rare classes more weight:

    criterion = nn.BCEWithLogitsLoss(pos_weight=negatives / positives)

When it is fine
---------------
Not reported: fewer than 50 steps, classes that are balanced (an untrained model), and models that later predict
several classes.
"""

from typing import Final

from trueloop.event import RunEnded, StepProgram
from trueloop.rules.program_view import ProgramView
from trueloop.rules.rule import Findings, Rule, Severity

__all__ = ["MajorityClassPredicted"]

STEPS: Final = 50
LEAST: Final = 32
MAJORITY: Final = 0.75
_EQUALS: Final = ("eq", "__eq__", "ne", "__ne__")


class MajorityClassPredicted(Rule, code="MOD107", severity=Severity.WARNING):
    not_applicable = "no prediction was compared with labels in an evaluation"

    def __init__(self) -> None:
        self._last: tuple[StepProgram, float, float, object] | None = None

    def on_step_program(self, event: StepProgram) -> None:
        if event.phase != "evaluation" or event.step < STEPS:
            return
        view = ProgramView(event)
        for operation, prediction, target in view.comparisons:
            if operation.name not in _EQUALS or len(view.values[target].shape) != 1:
                continue
            predicted, labels = view.values[prediction], view.values[target]
            if labels.shape[0] < LEAST or labels.constant or predicted.smallest is None or labels.mean is None:
                continue
            if labels.smallest != 0 or labels.largest != 1:
                continue  # the share of the majority is known from the mean of zeros and ones only
            same = predicted.constant or predicted.smallest == predicted.largest
            share = 1 - labels.mean if predicted.smallest == 0 else labels.mean
            self._last = (event, predicted.smallest, share, operation.place) if same else None

    def on_run_ended(self, _: RunEnded) -> Findings:
        if self._last is None or self._last[2] < MAJORITY:
            return
        event, predicted, share, place = self._last
        yield self.finding(
            event,
            f"Every prediction of the last recorded evaluation is class {predicted:g}; {share:.1%} of the labels are, "
            f"so the accuracy is {share:.3f} without finding any other class.",
            fix="Look at recall per class; weight the rare class (`pos_weight`, `weight`) or sample it more often.",
            evidence={"predicted": predicted, "share_of_labels": round(share, 4), "step": event.step},
            place=place,  # type: ignore[arg-type]
        )
