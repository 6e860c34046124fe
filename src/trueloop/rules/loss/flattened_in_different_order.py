"""LOS124 flattened-in-different-order: predictions are flattened time by time, their targets sample by sample.

What it sees
------------
In a recorded training step a loss gets predictions that were `[a, b, classes]` and targets that were `[b, a]` before
both were flattened. They have equally many rows, so nothing fails.

Why it hurts
------------
Row by row the loss compares a prediction with the target of another position of another sample. The model learns how
frequent the classes are, and no more.

Evidence
--------
Both shapes before flattening.

Use instead
-----------
    loss = F.cross_entropy(logits.transpose(0, 1).reshape(-1, classes), tags.reshape(-1))

or build recurrent and attention layers with `batch_first=True`.

When it is fine
---------------
Not reported: two sizes that are equal, and tensors that were transposed before they were flattened.
"""

from math import prod
from typing import Final

from trueloop.event import StepProgram
from trueloop.event.operation_names import LOSSES, RESHAPES
from trueloop.rules.program_view import ProgramView
from trueloop.rules.rule import Findings, Rule, Severity

__all__ = ["FlattenedInDifferentOrder"]

_KEEPS: Final = RESHAPES | {"contiguous", "long", "float", "to", "double", "int", "detach", "clone"}


class FlattenedInDifferentOrder(Rule, code="LOS124", severity=Severity.ERROR):
    not_applicable = "no training step was recorded"

    def on_step_program(self, event: StepProgram) -> Findings:
        if event.phase != "training":
            return
        view = ProgramView(event)
        for operation in event.operations:
            if operation.name not in LOSSES or len(operation.inputs) < 2 or self.count(operation.place) != 1:
                continue
            prediction, target = (_before_flattening(view, value) for value in operation.inputs[:2])
            if prediction is None or target is None or len(target) != 2 or target[0] == target[1] or 1 in target:
                continue
            if prediction[:2] != target[::-1] or len(prediction) > 3:
                continue
            yield self.finding(
                event,
                f"`{operation.name}` compares predictions that were {list(prediction)} with targets that were "
                f"{list(target)} before both were flattened: the rows are in different orders.",
                fix="Transpose one of them first: `logits.transpose(0, 1).reshape(-1, classes)`.",
                evidence={"prediction": list(prediction), "target": list(target)},
                place=operation.place,
            )


def _before_flattening(view: ProgramView, value: int) -> tuple[int, ...] | None:
    """The shape before the first two dimensions became one."""
    for _ in range(6):
        maker = view.maker(value)
        if maker is None or not maker.inputs:
            return None
        before, after = view.values[maker.inputs[0]].shape, view.values[value].shape
        if maker.name in RESHAPES and len(before) == len(after) + 1:
            return before if (prod(before[:2]), *before[2:]) == after else None
        if maker.name not in _KEEPS or before != after:
            return None
        value = maker.inputs[0]
    return None
