"""LOS134 quantile-loss-reversed: a quantile loss takes the error with the wrong sign, so it learns the other quantile.

What it sees
------------
In a recorded training step, the larger one (or a choice) of `q * error` and `(q - 1) * error` enters the loss, and the
error is the prediction minus the target.

Why it hurts
------------
This weighs predictions that are too high by `q`, which is the loss of the quantile `1 - q`: the output for 10 % learns
the value that 90 % of the targets stay below. Intervals are upside down, and cover nothing.

Evidence
--------
The line of the error, and the range of the quantiles.

Use instead
-----------
    error = target - prediction
    loss = torch.maximum(q * error, (q - 1) * error).mean()

When it is fine
---------------
Not reported: errors that are the target minus the prediction, `(1 - q) * error` with the other sign, and a quantile of
0.5, which is the same both ways.
"""

import ast
from typing import Final

from trueloop.event import Operation, Place, StepProgram
from trueloop.event.operation_names import PRODUCTS, SUBTRACTIONS
from trueloop.rules.program_view import ProgramView
from trueloop.rules.rule import Findings, Rule, Severity, on_line
from trueloop.usercode.source import source_of

__all__ = ["QuantileLossReversed"]

SAMPLED: Final = 2  # steps that must show it
_CHOICES: Final = ("maximum", "max", "where")


class QuantileLossReversed(Rule, code="LOS134", severity=Severity.ERROR):
    not_applicable = "no training step was recorded"

    def on_step_program(self, event: StepProgram) -> Findings:
        if event.phase != "training":
            return
        view = ProgramView(event)
        for operation in event.operations:
            found = _reversed(view, operation)
            if found is None or self.count(operation.place) != SAMPLED:
                continue
            error, low, high = found
            place = view.place_of(error) or operation.place
            yield self.finding(
                event,
                f"The quantile loss{on_line(operation.place, place)} weighs prediction minus target by "
                f"{_range(low, high)}: this is the loss of the quantile 1 - q.",
                fix="Swap the difference: `error = target - prediction`.",
                evidence={"smallest": round(low, 4), "largest": round(high, 4), "loss": operation.place},
                place=place,
            )


def _range(low: float, high: float) -> str:
    return f"q = {low:.3g}" if abs(high - low) < 1e-6 else f"q from {low:.3g} to {high:.3g}"


def _reversed(view: ProgramView, operation: Operation) -> tuple[int, float, float] | None:
    """The error, and the smallest and largest q; None in other operations, and where the sign is right."""
    if operation.name not in _CHOICES or len(operation.inputs) < 2 or operation.outputs[0] not in view.on_loss_path:
        return None
    products = [view.maker(index) for index in operation.inputs[-2:]]
    if any(product is None or product.name not in PRODUCTS for product in products):
        return None
    one, other = (product for product in products if product is not None)
    shared = [index for index in one.inputs if index in other.inputs and view.values[index].grad]
    if len(shared) != 1:
        return None
    first, second = _factor(view, one, shared[0]), _factor(view, other, shared[0])
    if first is None or second is None:
        return None
    positive, negative = (first, second) if first[0] > second[0] else (second, first)
    exact = all(abs(a - 1 - b) < 1e-4 for a, b in zip(positive, negative, strict=True)) and 0 < positive[0] < 1
    same = all(abs(q - 0.5) < 1e-3 for q in positive)
    difference = view.maker(view.through_views(shared[0]))
    if not exact or same or difference is None or difference.name not in SUBTRACTIONS:
        return None
    if (view.values[operation.outputs[0]].smallest or 0.0) < -1e-6:
        return None
    if len(difference.inputs) != 2 or difference.inputs[0] not in view.learned or difference.inputs[1] in view.learned:
        return None
    written = [place for place in (one.place, other.place, operation.place) if place is not None]
    return (shared[0], *positive) if _says_minus_one(written) else None


def _factor(view: ProgramView, product: Operation, error: int) -> tuple[float, float] | None:
    """The smallest and largest number that an error is multiplied by."""
    rest = [index for index in product.inputs if index != error]
    if rest:
        value = view.values[rest[0]]
        return (
            None if value.grad or value.smallest is None or value.largest is None else (value.smallest, value.largest)
        )
    for _, text in product.options:
        try:
            return float(text), float(text)
        except ValueError:
            continue
    return None


def _says_minus_one(places: list[Place]) -> bool:
    """The lines say `q - 1` and not `1 - q`: q is the quantile itself."""
    statements = [source_of(place.path).statement(place.line) for place in places]
    differences = [
        node for statement in statements if statement is not None for node in ast.walk(statement)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub)
    ]  # fmt: skip
    return any(_is_one(node.right) for node in differences) and not any(_is_one(node.left) for node in differences)


def _is_one(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value in (1, 1.0)
