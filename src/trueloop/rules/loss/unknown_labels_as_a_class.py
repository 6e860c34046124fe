"""LOS186 unknown-labels-as-a-class: labels that mean "unknown" are clamped to 0 and trained as class 0.

What it sees
------------
In two recorded training steps, integer labels contain negative ones beside several classes, one of them class 0. The
same step compares these labels with 0 or with the negative one (`y < 0`, `y >= 0`, `y != -1`), so the script takes them
for unknown. A clamp turns them into class 0, and the result is the target of `cross_entropy` or `nll_loss`, which
averages or adds up all rows, without `weight` and without ignoring class 0.

Why it hurts
------------
Every row without a label is trained as class 0. Where most rows have no label, the model answers class 0 for all.

Evidence
--------
The smallest label before and after the clamp, the line of the clamp, and the line of the comparison.

Use instead
-----------
    loss = F.cross_entropy(logits, y, ignore_index=-1)

When it is fine
---------------
Not reported: a loss per row that is masked afterwards (`reduction="none"`), labels -1 and +1 that become 0 and 1,
labels of which the negative ones were removed before, and scripts that never ask which labels are negative: to them,
-1 may be another name of class 0.
"""

from typing import Final

from trueloop.event import Operation, StepProgram
from trueloop.event.operation_names import CLAMPS, CLASS_LOSSES, EQUALITIES, ORDERINGS
from trueloop.rules.program_view import ProgramView, number_in
from trueloop.rules.rule import Findings, Rule, Severity, on_line

__all__ = ["UnknownLabelsAsAClass"]

SAMPLED: Final = 2  # steps that must show it
CLASSES: Final = 2  # the largest label, at least: -1 and 1 may become 0 and 1
_CLAMPS: Final = CLAMPS | {"relu", "maximum", "clip"}
_COMPARISONS: Final = EQUALITIES | ORDERINGS


class UnknownLabelsAsAClass(Rule, code="LOS186", severity=Severity.ERROR):
    not_applicable = "no training step was recorded"

    def on_step_program(self, event: StepProgram) -> Findings:
        if event.phase != "training":
            return
        view = ProgramView(event)
        for loss in event.operations:
            clamp = _clamp_of_targets(view, loss)
            if clamp is None:
                continue
            labels = clamp.inputs[0]
            asked = _comparison(view, labels)
            if asked is None or self.count(loss.place) != SAMPLED:
                continue
            smallest = view.values[labels].smallest
            yield self.finding(
                event,
                f"Labels of {smallest:.0f} are clamped to 0{on_line(clamp.place, loss.place)} and trained as class 0, "
                f"although the script takes them for unknown{on_line(asked.place, loss.place)}.",
                fix=f"Give the loss the labels as they are, with `ignore_index={smallest:.0f}`.",
                evidence={"smallest_label": smallest, "clamped": clamp.place, "compared": asked.place},
                place=loss.place,
            )


def _clamp_of_targets(view: ProgramView, loss: Operation) -> Operation | None:
    """What made the targets of a loss over all rows, if it has replaced negative ones by 0."""
    if loss.name not in CLASS_LOSSES or len(loss.inputs) != 2 or not view.values[loss.inputs[0]].grad:
        return None  # three inputs: with weights of the classes
    options = dict(loss.options)
    if options.get("reduction", "mean") == "none" or options.get("ignore_index", "-100") == "0":
        return None
    clamp = view.maker(view.through_views(loss.inputs[1]))
    if clamp is None or clamp.name not in _CLAMPS or not clamp.inputs:
        return None
    before, after = view.values[clamp.inputs[0]], view.values[clamp.outputs[0]]
    if before.smallest is None or before.largest is None or "int" not in before.dtype:
        return None
    return clamp if before.smallest < 0 == after.smallest and before.largest >= CLASSES else None


def _comparison(view: ProgramView, labels: int) -> Operation | None:
    """Where the step asks which of the labels are negative: a comparison with one number that tells them apart."""
    memory = view.values[labels].memory
    for operation in view.operations:
        if operation.name not in _COMPARISONS or len(operation.inputs) != 1:
            continue
        same = operation.inputs[0] == labels or view.values[operation.inputs[0]].memory == memory
        numbers = [number for _, text in operation.options if (number := number_in(text)) is not None]
        if same and numbers and numbers[0] in _bounds(operation, view.values[labels].smallest):
            return operation
    return None


def _bounds(operation: Operation, smallest: float | None) -> tuple[float | None, ...]:
    name = operation.name.strip("_")
    return (smallest,) if name in ("eq", "ne") else (0.0,) if name in ("lt", "ge") else (-1.0,)
