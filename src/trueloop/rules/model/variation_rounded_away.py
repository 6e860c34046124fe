"""MDL121 variation-rounded-away: numbers that vary become one constant before the model uses them.

What it sees
------------
In all recorded training steps, an integer division, a cast to integers or a rounding turns values that vary into one
and the same number, and a trained model computes with the result.

Why it hurts
------------
`t // 1000` of a time step below 1000 is 0, and so is `int` of a share below 1. The model gets a constant where a time,
an age or a position was meant: it cannot learn what depends on it, and nothing fails.

Evidence
--------
The operation, the range of the values before it, the constant after it, and the number of recorded steps.

Use instead
-----------
    position = t / steps          # true division
    share = amounts / total       # no cast to integers

When it is fine
---------------
Not reported: results that vary in one of the recorded steps or differ between them, comparisons and masks, results that
only select rows, targets, random masks, and values that are constant before or equal in all steps (positions).
"""

from typing import Final

from trueloop.event import Operation, Place, RunEnded, StepProgram
from trueloop.event.operation_names import RANDOM
from trueloop.rules.program_view import ProgramView
from trueloop.rules.rule import Findings, Rule, Severity

__all__ = ["VariationRoundedAway"]

SAMPLED: Final = 3  # recorded steps that must show it
SAMPLES: Final = 8  # numbers that differ at random are then hardly the same by chance
_DIVISIONS: Final = frozenset({"floor_divide", "__floordiv__"})
_ROUNDINGS: Final = _DIVISIONS | {"floor", "trunc", "round", "fix"}
_CASTS: Final = frozenset({"long", "int", "short", "byte", "char", "to", "type"})
_NUMERIC: Final = frozenset({
    "mul", "__mul__", "__rmul__", "__matmul__", "matmul", "add", "__add__", "__radd__", "sin", "cos", "linear", "cat",
    "div", "__truediv__", "true_divide", "float", "double", "to", "unsqueeze", "view", "reshape", "embedding", "stack",
    "log", "long", "int",
    "__getitem__", "exp", "outer", "einsum", "expand", "log1p", "sqrt", "pow", "__pow__",
})  # fmt: skip


class VariationRoundedAway(Rule, code="MDL121", severity=Severity.WARNING):
    not_applicable = "no training step was recorded"

    def __init__(self) -> None:
        self._constant: dict[Place, list[tuple[StepProgram, Operation]]] = {}
        self._varies: set[Place] = set()

    def on_step_program(self, event: StepProgram) -> None:
        if event.phase != "training" or not event.losses:
            return
        view = ProgramView(event)
        seen: dict[Place, Operation] = {}
        for operation in view.operations:
            if operation.place is None or not _rounds(view, operation):
                continue
            before, after = view.values[operation.inputs[0]], view.values[operation.outputs[0]]
            if not after.constant:
                self._varies.add(operation.place)
            elif not before.constant and _feeds_a_model(view, operation.outputs[0]):
                seen.setdefault(operation.place, operation)
        for place, operation in seen.items():
            self._constant.setdefault(place, []).append((event, operation))

    def on_run_ended(self, _: RunEnded) -> Findings:
        for place, steps in self._constant.items():
            event, operation = steps[-1]
            results = {program.values[o.outputs[0]].smallest for program, o in steps}
            given = {program.values[o.inputs[0]].mean for program, o in steps}
            if len(steps) < SAMPLED or place in self._varies or len(results) > 1 or len(given) < len(steps):
                continue
            before, after = event.values[operation.inputs[0]], event.values[operation.outputs[0]]
            yield self.finding(
                event,
                f"`{operation.name}` turns values between {before.smallest:.4g} and {before.largest:.4g} "
                f"{list(before.shape)} into the constant {after.smallest:.4g} in all {len(steps)} recorded steps, and "
                "the model computes with it.",
                fix="Divide with `/`, and keep floating-point numbers: `t / steps`.",
                evidence={"operation": operation.name, "before": [before.smallest, before.largest],
                          "after": after.smallest, "sampled_steps": len(steps)},
                place=place,
            )  # fmt: skip


def _rounds(view: ProgramView, operation: Operation) -> bool:
    """An integer division, a rounding or a cast to integers of numbers without a graph."""
    if len(operation.inputs) not in (1, 2) or len(operation.outputs) != 1:
        return False
    before, after = view.values[operation.inputs[0]], view.values[operation.outputs[0]]
    if before.grad or before.dtype == "bool" or after.dtype == "bool" or before.shape != after.shape:
        return False
    if before.smallest is None or before.largest is None or after.smallest is None or not before.shape:
        return False
    if before.shape[0] < SAMPLES or operation.inputs[0] in view.learned or _is_noise(view, operation.inputs[0]):
        return False
    if operation.name in _ROUNDINGS:
        return len(operation.inputs) == 1 or view.values[operation.inputs[1]].constant
    return operation.name in _CASTS and before.dtype.startswith("float") and after.dtype.startswith(("int", "uint"))


def _is_noise(view: ProgramView, value: int) -> bool:
    """A floating-point draw is behind it: `floor(rand() + keep)` is a mask that may keep all."""
    makers = [maker for index in view.contents(value) if (maker := view.maker(index)) is not None]
    return any(m.name in RANDOM and view.values[m.outputs[0]].dtype.startswith("float") for m in makers if m.outputs)


def _feeds_a_model(view: ProgramView, value: int) -> bool:
    """It reaches an operation with a parameter that the loss depends on, through arithmetic only."""
    waiting, seen = [value], {value}
    while waiting:
        for operation in view.readers.get(waiting.pop(), []):
            mine = [i for i in operation.inputs if i in seen]
            if any(i in view.learned and view.values[i].grad for i in operation.inputs):
                if not view.on_loss_path.isdisjoint(operation.outputs) and operation.name in _NUMERIC:
                    return True
                continue
            if operation.name not in _NUMERIC or (operation.name == "__getitem__" and operation.inputs[0] not in mine):
                continue
            new = [i for i in operation.outputs if i not in seen]
            waiting += new
            seen.update(new)
    return False
