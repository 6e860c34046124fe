"""LOS105 shapes-broadcast-in-loss: predictions [B, 1] and targets [B] broadcast to [B, B] in the loss.

What it sees
------------
The input and the target of an elementwise loss have the same number of elements, in shapes that differ by dimensions of
size 1, so broadcasting compares every prediction with every target. This covers `mse_loss` and similar functions, and
any loss or metric in your own code (`((pred - y) ** 2).mean()`, `(pred.round() == y).mean()`), also of a script without
modules, whose optimizer trains tensors.

Why it hurts
------------
Each prediction is pulled towards all targets of the batch, so the model learns only their mean. The loss looks
plausible and falls at first.

Evidence
--------
Both shapes, the broadcast shape, and the number of comparisons made and expected.

Use instead
-----------
    loss = F.mse_loss(model(x).squeeze(-1), y)        # [B] against [B]

When it is fine
---------------
Not reported: scalars, weights or a shared row that broadcast on purpose ([B, C] against [C]), and explicit pairwise
distances (`a[:, None]` against `b[None]`, samples against learned centers).
"""

import ast
from math import prod
from typing import Final

from trueloop.event import Backward, LossComputed, Place, StepProgram
from trueloop.event.operation_names import DISTANCE_LOSSES, LOSSES
from trueloop.rules.program_view import ProgramView
from trueloop.rules.rule import Findings, Rule, Severity, facts, statement_at
from trueloop.usercode.source import called_name, calls_in, diff

__all__ = ["ShapesBroadcastInLoss"]

Shape = tuple[int, ...]

_CLASSES: Final = (
    "If the targets {0:g} to {1:g} are class numbers, let the model return {outputs} logits per sample and use "
    "`cross_entropy(logits, y.long())`. If they are amounts, give both the same shape by `.squeeze(-1)`."
)
_ELEMENTWISE: Final = DISTANCE_LOSSES | {"kl_div"}


class ShapesBroadcastInLoss(Rule, code="LOS105", severity=Severity.ERROR):
    not_applicable = "no elementwise loss was called"

    def __init__(self) -> None:
        self._places: set[Place | None] = set()  # Lines with a reported loss function: no custom loss is searched there

    def on_loss_computed(self, event: LossComputed) -> Findings:
        if event.function not in _ELEMENTWISE:
            return
        shape = _crossed(event.input_shape, event.target_shape)
        if shape is None or _on_purpose(event):
            return
        self._places.add(event.place)
        yield self.finding(
            event,
            f"`{event.function}` broadcasts {list(event.input_shape)} and {list(event.target_shape)} to {list(shape)}: "
            f"{prod(shape)} comparisons instead of {prod(event.input_shape)}.",
            fix=_CLASSES.format(*event.target_range or (), outputs=event.target_distinct)
            if _are_classes(event)
            else "Give input and target the same shape, e.g. `.squeeze(-1)` on the one with the extra dimension.",
            evidence=facts(
                event,
                "function input_shape target_shape",
                broadcast_shape=list(shape),
                comparisons=prod(shape),
                expected=prod(event.input_shape),
            ),
            diff="" if _are_classes(event) else _squeezed(event),
        )

    def on_backward(self, event: Backward) -> Findings:
        if event.broadcast is None or event.broadcast_place in self._places:
            return
        prediction, shape = event.broadcast
        if not _squared(prediction, shape):
            return
        yield self.finding(
            event,
            f"Subtracting the target broadcasts the prediction from {list(prediction)} to {list(shape)}: "
            f"{prod(shape)} comparisons instead of {prod(prediction)}.",
            fix="Give prediction and target the same shape, e.g. `.squeeze(-1)` on the one with the extra dimension.",
            evidence={
                "prediction_shape": list(prediction),
                "broadcast_shape": list(shape),
                "comparisons": prod(shape),
                "expected": prod(prediction),
            },
            place=event.broadcast_place,
        )

    def on_step_program(self, event: StepProgram) -> Findings:
        view = ProgramView(event)
        for operation, prediction, target in view.comparisons:
            first, second = view.values[prediction].shape, view.values[target].shape
            shape = _crossed(first, second)
            if shape is None or len(first) == len(second) or operation.name in LOSSES:
                continue
            if operation.place in self._places or view.values[view.through_views(prediction)].origin == "parameter":
                continue  # weights themselves are no predictions: the centers that samples are compared with
            self._places.add(operation.place)
            what = "The loss" if operation.outputs[0] in view.on_loss_path else "This line"
            yield self.finding(
                event,
                f"{what} combines a prediction {list(first)} with a target {list(second)}: broadcasting makes "
                f"{list(shape)}, {prod(shape)} pairs instead of {prod(first)}.",
                fix="Give prediction and target the same shape, e.g. `.squeeze(-1)` on the one with the extra "
                "dimension.",
                evidence={
                    "operation": operation.name,
                    "prediction_shape": list(first),
                    "target_shape": list(second),
                    "broadcast_shape": list(shape),
                    "pairs": prod(shape),
                    "expected": prod(first),
                },
                place=operation.place,
            )


def _are_classes(event: LossComputed) -> bool:
    """Targets 0, 1, 2 .. without a gap, or whole numbers that the run compares with decisions: a distance to them means
    nothing. Two values may be yes and no."""
    if event.function == "kl_div" or not event.target_integral or event.target_range is None:
        return False
    low, high = event.target_range
    return low == 0 and event.target_distinct > 2 and (event.target_distinct == high + 1 or event.target_used_as_class)


def _crossed(first: Shape, second: Shape) -> Shape | None:
    """The broadcast shape, if the two differ only by dimensions of size 1 and yet every pair is compared."""
    if first == second or [n for n in first if n != 1] != [n for n in second if n != 1]:
        return None
    rank = max(len(first), len(second))
    pairs = zip((1,) * (rank - len(first)) + first, (1,) * (rank - len(second)) + second, strict=True)
    shape = tuple(max(pair) for pair in pairs)
    return shape if prod(shape) > prod(first) else None


def _squared(prediction: Shape, shape: Shape) -> bool:
    """One dimension of the prediction appears twice: [B, 1] or [B] became [B, B]."""
    kept = [n for n in prediction if n != 1]
    grown = [n for n in shape if n != 1]
    return any(sorted([*kept, n]) == sorted(grown) for n in kept)


def _on_purpose(event: LossComputed) -> bool:
    """An intended distance matrix: not reduced, or with a dimension added on the line itself, at equal rank."""
    same_rank, unreduced = len(event.input_shape) == len(event.target_shape), event.reduction == "none"
    source, statement = statement_at(event.place)
    if event.place is None or same_rank == unreduced:
        return same_rank
    text = "" if statement is None else source.text(statement)
    return any(word in text for word in ("unsqueeze", "None]", "None,", "newaxis"))


def _squeezed(event: LossComputed) -> str:
    """`.squeeze(-1)` on the argument with one extra last dimension of size 1."""
    longer = 0 if len(event.input_shape) > len(event.target_shape) else 1
    shapes = (event.input_shape, event.target_shape)
    source, statement = statement_at(event.place)
    if statement is None or shapes[longer] != (*shapes[1 - longer], 1):
        return ""
    calls = [call for call in calls_in(statement) if len(call.args) == 2]
    named = [call for call in calls if called_name(call) == event.function] or calls
    if len(named) != 1 or any(isinstance(argument, ast.Starred) for argument in named[0].args):
        return ""
    argument = named[0].args[longer]
    text = source.text(argument)
    simple = isinstance(argument, (ast.Name, ast.Attribute, ast.Call, ast.Subscript))
    return diff(source.path, [source.replacing(argument, f"{text if simple else f'({text})'}.squeeze(-1)")])
