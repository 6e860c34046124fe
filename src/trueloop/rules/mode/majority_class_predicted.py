"""MOD107 majority-class-predicted: every prediction is the most frequent class, and the accuracy hides it.

What it sees
------------
In a recorded evaluation near the end of the run, all predictions that are compared with labels 0 and 1 are the same
class, which is that of at least 75 % of the labels; at least 8 labels are of the other class.

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
Not reported: fewer than 50 steps, classes that are balanced (an untrained model), batches with fewer than 8 labels of
the rare class, evaluations in the first 70 % of the run, and models that also predict the rare class.
"""

from typing import Final

from trueloop.event import Place, RunEnded, StepProgram, Value
from trueloop.event.operation_names import EQUALITIES
from trueloop.rules.program_view import ProgramView
from trueloop.rules.rule import Findings, Rule, Severity

__all__ = ["MajorityClassPredicted"]

STEPS: Final = 50
RECENT: Final = 0.7  # of the run's steps: an earlier evaluation says nothing about the trained model
RARE: Final = 8  # labels of the other class that were all missed
MAJORITY: Final = 0.75


class MajorityClassPredicted(Rule, code="MOD107", severity=Severity.WARNING):
    not_applicable = "no prediction was compared with labels in an evaluation"

    def __init__(self) -> None:
        self._last: dict[Place | None, tuple[StepProgram, list[tuple[Value, Value]]]] = {}
        """By line: the latest evaluation that compares there, and its predictions and labels."""

    def on_step_program(self, event: StepProgram) -> None:
        if event.phase != "evaluation" or event.step < STEPS:
            return
        view, found = ProgramView(event), dict[Place | None, list[tuple[Value, Value]]]()
        for operation, prediction, target in view.comparisons:
            if operation.name in EQUALITIES:
                found.setdefault(operation.place, []).append((view.values[prediction], view.values[target]))
        self._last |= {place: (event, pairs) for place, pairs in found.items()}

    def on_run_ended(self, ended: RunEnded) -> Findings:
        for place, (event, pairs) in self._last.items():
            predicted = _only_class(pairs)
            if event.step < RECENT * ended.step or predicted is None:
                continue
            total = sum(labels.shape[0] for _, labels in pairs)
            ones = sum((labels.mean or 0.0) * labels.shape[0] for _, labels in pairs)
            same = ones if predicted == 1 else total - ones
            if total - same < RARE or same < MAJORITY * total:
                continue
            yield self.finding(
                event,
                f"All {total} predictions of an evaluation after {event.step} steps are class {predicted:g}; "
                f"{same / total:.1%} of the labels are, so the accuracy is {same / total:.3f} without finding any of "
                f"the {total - same:.0f} others.",
                fix="Look at recall per class; weight the rare class (`pos_weight`, `weight`) or sample it more often.",
                evidence={"predicted": predicted, "share_of_labels": round(same / total, 4), "step": event.step},
                place=place,
            )


def _only_class(pairs: list[tuple[Value, Value]]) -> float | None:
    """The class that all predictions are, where all labels are 0 or 1 and there is one per row."""
    for predicted, labels in pairs:
        if not labels.shape or any(size != 1 for size in labels.shape[1:]) or labels.mean is None:
            return None
        if predicted.smallest is None or predicted.smallest != predicted.largest or labels.smallest not in (0, 1):
            return None
        if labels.largest not in (0, 1) or not 0 <= labels.mean <= 1 or predicted.shape[:1] != labels.shape[:1]:
            return None
    classes = {predicted.smallest for predicted, _ in pairs}
    return classes.pop() if len(classes) == 1 and classes <= {0.0, 1.0} else None
