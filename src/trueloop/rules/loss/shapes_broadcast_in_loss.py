"""LOS105 shapes-broadcast-in-loss: predictions [B, 1] and targets [B] broadcast to [B, B] in the loss.

What it sees
------------
The input and the target of an elementwise loss have the same number of elements, in shapes that differ by dimensions of
size 1, so broadcasting compares every prediction with every target. This covers `mse_loss` and similar functions, and
any loss or metric in your own code (`((pred - y) ** 2).mean()`, `(pred.round() == y).mean()`), also of a script without
modules, whose optimizer trains tensors. And it covers two values per sample that were both computed by the model, such
as a squared error [B] and a variance [B, 1], where all pairs are only averaged or summed.

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
distances (`a[:, None]` against `b[None]`, samples against learned centers), and pairs of two values of the model that
are subtracted, masked, ranked, or meet another table of pairs.
"""

import ast
from collections.abc import Iterator
from math import prod
from typing import Final

from trueloop.event import Backward, LossComputed, Operation, Place, StepProgram
from trueloop.event.operation_names import ANY_DIFFERENCE, ARITHMETIC, DISTANCE_LOSSES, ELEMENTWISE, LOSSES
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
_KEEPING: Final = frozenset({"exp", "log", "neg", "abs", "square", "sqrt", "softplus", "sigmoid", "tanh", "clamp"})
_MOST: Final = 40  # operations to follow


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
        compared = [(*found, "a prediction", "a target") for found in view.comparisons]
        for operation, one, other, first_role, second_role in [*compared, *_both_learned(view)]:
            first, second = view.values[one].shape, view.values[other].shape
            shape = _crossed(first, second)
            if shape is None or len(first) == len(second) or operation.name in LOSSES:
                continue
            if operation.place in self._places or view.values[view.through_views(one)].origin == "parameter":
                continue  # weights themselves are no predictions: the centers that samples are compared with
            self._places.add(operation.place)
            what = "The loss" if operation.outputs[0] in view.on_loss_path else "This line"
            yield self.finding(
                event,
                f"{what} combines {first_role} {list(first)} with {second_role} {list(second)}: broadcasting makes "
                f"{list(shape)}, {prod(shape)} pairs instead of {prod(first)}.",
                fix="Give both the same shape, e.g. `.squeeze(-1)` on the one with the extra dimension.",
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


def _both_learned(view: ProgramView) -> Iterator[tuple[Operation, int, int, str, str]]:
    """Two values per sample, both computed by a model from data, whose pairs are only averaged: a variance [B, 1] and
    a squared error [B]."""
    if view.program.phase != "training":
        return
    per_sample = view.learned & view.from_data
    for operation in view.operations:
        if operation.name not in ARITHMETIC or len(operation.inputs) != 2 or view.in_model(operation):
            continue
        one, other = operation.inputs
        first, second = view.values[one].shape, view.values[other].shape
        if not {one, other} <= per_sample or _crossed(first, second) is None or first[0] not in view.sizes_of_samples:
            continue
        longer = one if len(first) > len(second) else other
        apart = operation.name in ANY_DIFFERENCE and view.values[one].grad and view.values[other].grad
        same = view.through_views(one) == view.through_views(other)
        if apart or same:
            continue  # distances of generated samples, between all of two sets, may be meant
        if not _is_widened(view, longer) and _is_only_averaged(view, operation.outputs[0]):
            yield operation, one, other, "a value per sample", "one"


def _is_widened(view: ProgramView, value: int) -> bool:
    """Its dimension of size 1 was added on purpose, outside of a model: pairs are meant."""
    shape = view.values[value].shape
    for _ in range(_MOST):
        maker = view.maker(value)
        if maker is None or not maker.inputs or view.in_model(maker):
            return False
        source = next((i for i in maker.inputs if view.values[i].shape == shape), None)
        if source is None:
            return maker.name in {"unsqueeze", "__getitem__", "view", "reshape"} and (
                prod(view.values[maker.inputs[0]].shape) == prod(shape)
            )
        value = source
    return True


def _is_only_averaged(view: ProgramView, table: int) -> bool:
    """All that becomes of a table of pairs is a sum or mean: no mask, no order, no other table, no softmax over it."""
    shape, derived, waiting = view.values[table].shape, {table}, [table]
    total = False
    for _ in range(_MOST):
        if not waiting:
            return total
        value = waiting.pop()
        for reader in view.readers.get(value, []):
            if not reader.outputs or reader.outputs[0] not in view.on_loss_path:
                continue
            if reader.name in ("sum", "mean"):
                total = True
                continue
            others = [i for i in reader.inputs if i not in derived and view.values[i].shape == shape]
            wanted = ELEMENTWISE | _KEEPING if len(reader.inputs) == 1 else ELEMENTWISE
            if reader.name not in wanted or view.values[reader.outputs[0]].shape != shape:
                return False
            if any(not _rests_on(view, i, derived) for i in others):
                return False
            if reader.outputs[0] not in derived:
                derived.add(reader.outputs[0])
                waiting.append(reader.outputs[0])
    return False


def _rests_on(view: ProgramView, value: int, derived: set[int]) -> bool:
    """The only table behind a value is the one that is followed."""
    shape = view.values[value].shape
    for _ in range(_MOST):
        if value in derived:
            return True
        maker = view.maker(value)
        source = None if maker is None else next((i for i in maker.inputs if view.values[i].shape == shape), None)
        if source is None:
            return False
        value = source
    return False


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
