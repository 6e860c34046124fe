"""LOS180 mask-after-nan-replaced: the mask of missing values is made after they were replaced, so it masks nothing.

What it sees
------------
In two recorded training steps, a tensor of data has NaN or Inf, and `nan_to_num`, `where` or `masked_fill` replaces
them. The result is then tested for NaN (`isfinite`, `isnan`, `y == y`), and the mask from this test, in which all
elements are equal, is part of the computation of the loss.

Why it hurts
------------
Each missing value counts as a measured one, most often as a measured zero. The model is trained towards the value that
fills the gaps: the more are missing, the more.

Evidence
--------
The line that replaces the values, the line of the test, and the shape of the mask.

Use instead
-----------
    mask = torch.isfinite(target)             # first the mask
    target = torch.nan_to_num(target)         # then the filling
    loss = ((prediction - target) ** 2 * mask).sum() / mask.sum()

When it is fine
---------------
Not reported: tests that no loss depends on (an assertion, a log), and losses with a second mask that does tell elements
apart: one that was made before, or came with the data.
"""

from math import isfinite
from typing import Final

from trueloop.event import Operation, StepProgram
from trueloop.event.operation_names import ARITHMETIC, EQUALITIES, FINITE_CHECKS, PICKS, REPLACERS, VIEWS
from trueloop.rules.program_view import ProgramView
from trueloop.rules.rule import Findings, Rule, Severity, on_line

__all__ = ["MaskAfterNanReplaced"]

SAMPLED: Final = 2  # steps that must show it
_FILLS: Final = REPLACERS | {"masked_fill_"}
_BETWEEN: Final = VIEWS | ARITHMETIC | PICKS | {"clamp", "stack"}
_MOST: Final = 12  # operations between filling and test


class MaskAfterNanReplaced(Rule, code="LOS180", severity=Severity.ERROR):
    not_applicable = "no training step was recorded"

    def on_step_program(self, event: StepProgram) -> Findings:
        if event.phase != "training":
            return
        view = ProgramView(event)
        for operation in event.operations:
            mask = operation.outputs[0] if operation.outputs and _tests(operation) else None
            if mask is None or mask not in view.on_loss_path or view.values[mask].mean not in (0.0, 1.0):
                continue
            fill = _filling(view, operation.inputs[0])
            if fill is None or _has_other_mask(view, mask, fill) or self.count(operation.place) != SAMPLED:
                continue
            shape, place = list(view.values[mask].shape), operation.place
            yield self.finding(
                event,
                f"`{operation.name}` tests values whose NaN `{fill.name}` has replaced{on_line(fill.place, place)}: "
                f"this mask {shape} is the same for all elements, and missing values are trained.",
                fix="Make the mask first, from the values with NaN, and replace them afterwards.",
                evidence={"replaced": fill.place, "test": operation.name, "shape": shape},
                place=place,
            )


def _tests(operation: Operation) -> bool:
    itself = operation.name in EQUALITIES and len(operation.inputs) == 2 and len(set(operation.inputs)) == 1
    return (operation.name in FINITE_CHECKS and len(operation.inputs) == 1) or itself


def _has_gaps(view: ProgramView, index: int) -> bool:
    low, high = view.values[index].smallest, view.values[index].largest
    return low is not None and high is not None and not (isfinite(low) and isfinite(high))


def _filling(view: ProgramView, value: int) -> Operation | None:
    """The operation that replaced NaN in data, not far behind a value."""
    waiting, seen = [value], {value}
    while waiting and len(seen) <= _MOST:
        index = waiting.pop(0)
        maker = view.maker(index)
        if maker is None or index in view.learned:
            continue
        had = any(_has_gaps(view, i) and view.values[i].shape == view.values[index].shape for i in maker.inputs)
        if maker.name in _FILLS and had and not _has_gaps(view, index):
            return maker
        if maker.name in _BETWEEN:
            waiting += [i for i in maker.inputs if i not in seen]
            seen.update(maker.inputs)
    return None


def _has_other_mask(view: ProgramView, mask: int, fill: Operation) -> bool:
    """Something else that is 0 or 1, and not the filled values, tells the elements apart in the loss."""
    size = view.values[mask].shape
    filled = set(fill.outputs)
    data = {i for i in view.on_loss_path if i not in view.learned and view.values[i].shape == size}
    for index in data:
        value = view.values[index]
        is_mask = value.dtype == "bool" or (value.smallest == 0 and value.largest == 1)
        if not is_mask or value.constant or value.mean in (0.0, 1.0) or filled & set(view.behind(index)):
            continue
        readers = [o for o in view.readers.get(index, ()) if o is not fill]
        if any(set(o.outputs) & view.on_loss_path for o in readers):
            return True
    return False
