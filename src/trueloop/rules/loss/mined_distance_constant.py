"""LOS135 mined-distance-constant: the hardest pair that is mined in a batch is always the masked-out one, or itself.

What it sees
------------
In every recorded training step, the smallest or largest of each row of a learned matrix (distances, similarities) is
one and the same number for all rows, although the matrix varies, and that number enters the loss with a gradient; or
it is infinite for all rows, because the masked-out elements were filled with the wrong sign. Or the distance between
the rows of two learned tensors is zero for all rows.

Why it hurts
------------
`(dist * mask).min(1)` finds the zeros of the mask, not the nearest sample that the mask lets through. Without a mask,
the nearest sample is the sample itself. The mined value is a constant: no other sample is pushed away or pulled near,
and the embedding collapses while the loss stays at the margin.

Evidence
--------
The line, the number of rows, the mined value, the range of the matrix, and the number of recorded steps.

Use instead
-----------
    negatives = dist.masked_fill(same, float("inf")).min(1).values
    positives = dist.masked_fill(~same | eye, float("-inf")).max(1).values

When it is fine
---------------
Not reported: rows that differ in any recorded step (a hinge that is satisfied later), the maximum that is subtracted
from its own matrix before `exp`, values without a gradient, and fewer than 8 rows or 3 recorded steps.
"""

import math
from dataclasses import dataclass
from typing import Final

from trueloop.event import Operation, Place, RunEnded, StepProgram, Value
from trueloop.event.operation_names import ELEMENTWISE, MAGNITUDES, NEGATIONS, NORMS, SUBTRACTIONS, VIEWS
from trueloop.rules.program_view import ProgramView
from trueloop.rules.rule import Findings, Rule, Severity

__all__ = ["MinedDistanceConstant"]

ROWS: Final = 8
STEPS: Final = 3
CONSTANT: Final = 1e-3  # spread of the mined values, of the spread of the matrix
APART: Final = 1e-5  # distance of two rows, of their range: twice eps of pairwise_distance, and far below real ones
_MINING: Final = frozenset({"min", "max", "amin", "amax", "topk", "kthvalue"})
_MASKS: Final = ELEMENTWISE | VIEWS | NEGATIONS | {"masked_fill", "masked_fill_", "__invert__"}
_MOST: Final = 12


@dataclass(slots=True)
class _Seen:
    steps: int = 0
    constant: int = 0
    text: str = ""
    rows: int = 0
    value: float = 0.0
    low: float = 0.0
    high: float = 0.0


class MinedDistanceConstant(Rule, code="LOS135", severity=Severity.ERROR):
    not_applicable = "no training step was recorded"
    explained_by = ("inputs-identical", "output-ignores-input", "nan-or-inf", "loss-detached-from-parameters")

    def __init__(self) -> None:
        self._seen: dict[tuple[Place, str], tuple[_Seen, StepProgram]] = {}

    def on_step_program(self, event: StepProgram) -> None:
        if event.phase != "training" or not event.losses:
            return
        view = ProgramView(event)
        for operation in event.operations:
            if operation.place is None or not operation.outputs or not operation.direct or view.in_model(operation):
                continue
            result = view.values[operation.outputs[0]]
            if not result.grad or operation.outputs[0] not in view.on_loss_path or not _is_row(result):
                continue
            compared = _matrix(view, operation) or _pair(view, operation)
            if compared is not None:
                self._add(event, operation, result, *compared)

    def _add(self, event: StepProgram, operation: Operation, result: Value, text: str, source: Value) -> None:
        seen, _ = self._seen.setdefault((operation.place, text), (_Seen(text=text), event))  # type: ignore[arg-type]
        low, high = source.smallest or 0.0, source.largest or 0.0
        smallest, largest = result.smallest or 0.0, result.largest or 0.0
        seen.steps += 1
        if text == "apart":
            constant = high > low and max(abs(smallest), abs(largest)) <= APART * (high - low)
        elif text == "alike":
            constant = smallest >= 1 - APART
        elif math.isfinite(low) and math.isfinite(high):
            constant = high > low and largest - smallest <= CONSTANT * (high - low)
        else:  # the matrix holds the infinities of its mask: its range says nothing about the others
            constant = math.isinf(smallest) and math.isinf(largest)
        seen.constant += constant
        seen.rows, seen.value, seen.low, seen.high = result.shape[0], largest, low, high

    def on_run_ended(self, _: RunEnded) -> Findings:
        for (place, text), (seen, event) in self._seen.items():
            if seen.steps < STEPS or seen.constant < seen.steps:
                continue
            if text in ("apart", "alike"):
                what = f"The two rows of each of the {seen.rows} pairs that are compared here are equal"
                why = "a sample is paired with itself, so nothing is pushed away or pulled near"
            else:
                what = f"The {text} of each of {seen.rows} rows is {seen.value:.3g}"
                why = (
                    f"although the values range from {seen.low:.3g} to {seen.high:.3g}: it is always the element that "
                    "was masked out, or the sample itself"
                )
            yield self.finding(
                event,
                f"{what}, in all {seen.steps} recorded steps, {why}.",
                fix='Fill what must not be picked with infinity: `dist.masked_fill(same, float("inf")).min(1)`; '
                "for a maximum with minus infinity. Mask the diagonal too.",
                evidence={"rows": seen.rows, "value": seen.value, "smallest": seen.low, "largest": seen.high,
                          "steps": seen.steps},
                place=place,
            )  # fmt: skip


def _is_row(value: Value) -> bool:
    several = len(value.shape) == 1 or (len(value.shape) == 2 and value.shape[1] <= _MOST)
    return several and value.shape[0] >= ROWS and value.smallest is not None and value.dtype.startswith("float")


def _matrix(view: ProgramView, operation: Operation) -> tuple[str, Value] | None:
    """The matrix whose smallest or largest elements were taken, before it was masked."""
    if operation.name not in _MINING or len(operation.inputs) != 1:
        return None
    given = view.values[operation.inputs[0]]
    if len(given.shape) != 2 or given.shape[0] != view.values[operation.outputs[0]].shape[0] or given.shape[1] < ROWS:
        return None
    source = _unmasked(view, operation.inputs[0])
    value = view.values[source]
    if value.shape != given.shape or value.smallest is None or source not in view.learned:
        return None
    for reader in view.readers.get(operation.outputs[0], []):  # x - x.max(1): no pair is mined
        if reader.name in SUBTRACTIONS and not frozenset(reader.inputs).isdisjoint((source, operation.inputs[0])):
            return None
    text = "smallest" if "min" in operation.name or operation.name == "kthvalue" else "largest"
    return (text, value)


def _unmasked(view: ProgramView, index: int) -> int:
    """The learned value behind masks: products with, and fillings by, values that nothing learned went into."""
    for _ in range(_MOST):
        maker = view.maker(index)
        if maker is None or maker.name not in _MASKS:
            return index
        learned = [i for i in maker.inputs if i in view.learned]
        if len(learned) != 1 or (len(maker.inputs) == 1 and maker.name in ELEMENTWISE):
            return index
        index = learned[0]
    return index


def _pair(view: ProgramView, operation: Operation) -> tuple[str, Value] | None:
    """The first of two learned tensors whose rows are compared."""
    if operation.name in ("pairwise_distance", "cosine_similarity"):
        pair = operation.inputs[:2]
        text = "apart" if operation.name == "pairwise_distance" else "alike"
    else:
        source = operation.inputs[0] if operation.inputs else -1
        maker = view.maker(source)
        if operation.name in ("sum", "mean") and maker is not None and maker.name in MAGNITUDES and maker.inputs:
            maker = view.maker(maker.inputs[0])
        elif operation.name not in NORMS:
            return None
        if maker is None or maker.name not in SUBTRACTIONS:
            return None
        pair, text = maker.inputs, "apart"
    if len(pair) != 2 or any(not view.values[index].grad for index in pair):
        return None
    one, other = (view.values[index] for index in pair)
    same = one.shape == other.shape and len(one.shape) == 2 and one.shape[1] > 1 and one.smallest is not None
    return (text, one) if same else None
