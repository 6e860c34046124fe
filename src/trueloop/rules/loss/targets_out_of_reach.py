"""LOS123 targets-out-of-reach: the last activation cannot produce the targets.

What it sees
------------
In recorded training steps the prediction comes directly out of ReLU, sigmoid, softplus or tanh, and is compared element
by element with targets that this activation never gives: negative ones for ReLU, values far beyond 1 for sigmoid or
tanh. Or it comes out of a softmax, which sums to 1, and the targets of a row sum to more. Or, whatever computes it: at
the end of the training many predictions lie at one and the same largest (or smallest) value, and the targets of these
rows lie beyond it: a scaled tanh or a clamp whose limit is too small.

Why it hurts
------------
The model cannot fit these targets, however long it trains. Standardized data are half negative: a decoder that ends in
ReLU or sigmoid loses half of them. After a softmax the labels of one sample compete, and rarely two exceed 0.5.

Evidence
--------
The activation, its range, and the range and mean of the targets; the share of predictions at the limit.

Use instead
-----------
End a regression or a decoder of standardized data with a linear layer. For several labels per sample give logits to
`binary_cross_entropy_with_logits`.

When it is fine
---------------
Not reported: a few targets slightly outside of the range, targets of a different shape, activations that are followed
by any other operation (before the end of the training), and targets that are computed from the model itself.
"""

from math import prod
from typing import Final

from trueloop.event import Operation, PredictionsFitted, StepProgram, Value
from trueloop.event.operation_names import DISTANCE_LOSSES, SUBTRACTIONS
from trueloop.rules.program_view import ProgramView
from trueloop.rules.rule import Findings, Rule, Severity

__all__ = ["TargetsOutOfReach"]

SAMPLED: Final = 2  # steps that must show it
LEAST: Final = 64  # targets
LEAST_ROWS: Final = 24  # at the end of the training
MANY: Final = 1.2  # labels per row, on average
STEPS: Final = 100  # before predictions at a limit count
PINNED: Final = 0.2  # of the predictions
BEYOND: Final = 0.7  # of the targets of those
RECURRING: Final = 0.02  # of the targets: data that are read again
_DISTANCES: Final = DISTANCE_LOSSES | SUBTRACTIONS
_RANGES: Final[dict[str, tuple[float, float]]] = {
    "relu": (0.0, float("inf")), "relu_": (0.0, float("inf")), "softplus": (0.0, float("inf")),
    "sigmoid": (0.0, 1.0), "sigmoid_": (0.0, 1.0), "tanh": (-1.0, 1.0), "tanh_": (-1.0, 1.0),
}  # fmt: skip


class TargetsOutOfReach(Rule, code="LOS123", severity=Severity.ERROR):
    not_applicable = "no training step was recorded"

    def __init__(self) -> None:
        self.reported = False

    def on_predictions_fitted(self, event: PredictionsFitted) -> Findings:
        if event.last_call < STEPS or event.rows < LEAST_ROWS or event.recurring < RECURRING or self.reported:
            return
        for column in event.columns:
            low, high = column.range
            lowest, largest = column.target_range
            if column.pinned < PINNED or column.beyond < BEYOND or high - low < 1e-6 * max(1.0, largest - lowest):
                continue
            self.reported = True
            yield self.finding(
                event,
                f"The targets have {lowest:.3g} to {largest:.3g}, but the predictions never leave {low:.3g} to "
                f"{high:.3g}: {column.pinned:.0%} of them lie at that limit, and the targets beyond it.",
                fix="Raise the limit or the scale of the output to the range of the targets, or remove it; or scale "
                "the targets into it.",
                evidence={"predictions": column.range, "targets": column.target_range,
                          "at_the_limit": round(column.pinned, 3), "targets_beyond": round(column.beyond, 3)},
            )  # fmt: skip
            return

    def on_step_program(self, event: StepProgram) -> Findings:
        if event.phase != "training":
            return
        view = ProgramView(event)
        for operation in event.operations:
            if len(operation.inputs) < 2 or view.in_model(operation) or not operation.outputs:
                continue
            if operation.outputs[0] not in view.on_loss_path:
                continue
            found = _compared(view, operation)
            if found is None or self.count(operation.place) != SAMPLED:
                continue
            activation, target, what = found
            self.reported = True
            yield self.finding(
                event,
                f"The targets have {target.smallest:.3g} to {target.largest:.3g}, mean {target.mean:.3g}, but the "
                f"prediction comes out of `{activation}`: {what}.",
                fix="Remove the last activation, or scale the targets to its range; for several labels per sample "
                "use `binary_cross_entropy_with_logits`.",
                evidence={"activation": activation, "smallest": target.smallest, "largest": target.largest,
                          "mean": target.mean},
                place=operation.place,
            )  # fmt: skip


def _compared(view: ProgramView, operation: Operation) -> tuple[str, Value, str] | None:
    """The last activation, the targets, and why it cannot give them."""
    one, other = operation.inputs[:2]
    prediction, index = (one, other) if one in view.learned else (other, one)
    target, shape = view.values[index], view.values[prediction].shape
    if index in view.learned or target.mean is None or target.shape != shape or not view.values[prediction].grad:
        return None
    maker = view.maker(view.through_views(prediction))
    if maker is None or prod(shape) < LEAST or index not in view.from_data:
        return None
    if operation.name in _DISTANCES and maker.name in _RANGES:
        return _beyond(maker.name, target)
    if operation.name == "binary_cross_entropy" and maker.name in ("softmax", "Softmax") and len(shape) == 2:
        rows = target.mean * shape[1]
        if view.dim_of(maker) == 1 and rows > MANY and (target.smallest, target.largest) == (0.0, 1.0):
            return "softmax", target, f"it sums to 1 in each row, and the targets to {rows:.2f}"
    return None


def _beyond(activation: str, target: Value) -> tuple[str, Value, str] | None:
    low, high = _RANGES[activation]
    smallest, largest, mean = target.smallest or 0.0, target.largest or 0.0, target.mean or 0.0
    spread = largest - smallest
    if activation in ("relu", "relu_", "softplus"):
        wrong = smallest < -0.1 * spread and mean < 0.1 * spread  # more than a few are negative
        return (activation, target, "it is never negative") if wrong else None
    width = high - low
    outside = max(low - smallest, largest - high)
    wrong = outside > 0.4 * width and spread > 1.4 * width
    return (activation, target, f"it stays between {low:g} and {high:g}") if wrong else None
