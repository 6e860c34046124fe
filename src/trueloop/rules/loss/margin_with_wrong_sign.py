"""LOS190 margin-with-wrong-sign: a hinge of two distances subtracts its margin, so neither has to be the smaller one.

What it sees
------------
The whole loss is a hinge `relu(a - b - margin)` with a positive margin, in every recorded training step. `a` and `b`
are two distances or similarities of the same kind that share an embedding: an anchor, or the two sides of a matrix.

Why it hurts
------------
With `+ margin`, the loss is zero where the positive is nearer than the negative by the margin. With `- margin`, it is
zero as long as the positive is not farther away by the margin. Equal embeddings for all samples have no loss at all,
so nothing is learned beyond that.

Evidence
--------
The margin, the range of `a - b`, and the number of recorded steps.

Use instead
-----------
    loss = F.relu(positive_distance - negative_distance + margin).mean()
    loss = F.relu(negative_similarity - positive_similarity + margin).mean()

When it is fine
---------------
Not reported: other terms in the loss (the hinge may be an upper bound or a tolerance), a hinge of one distance, of
scores without a common embedding, of distances to data; a margin below 5% of the distances; fewer than three recorded
steps.
"""

from dataclasses import dataclass
from typing import Final

from trueloop.event import Operation, Place, RunEnded, StepProgram
from trueloop.event.operation_names import (
    ANY_ADDITION,
    ANY_DIFFERENCE,
    CLAMPS,
    MAGNITUDES,
    MATRIX_PRODUCTS,
    NEGATIONS,
    NORMS,
    PRODUCTS,
    REVERSED_SUBTRACTIONS,
    SUBTRACTIONS,
    TRANSPOSES,
    VIEWS,
)
from trueloop.rules.program_view import ProgramView, number_in
from trueloop.rules.rule import Findings, Rule, Severity

__all__ = ["MarginWithWrongSign"]

STEPS: Final = 3
TOLERANCE: Final = 0.05  # of the distances: a smaller number may be a tolerance
_RELU: Final = ("relu", "relu_", "threshold")
_MAXIMA: Final = ("maximum", "max")
_TURNS: Final = TRANSPOSES | VIEWS | {"T", "mT", "t"}
_PAIRED: Final = MATRIX_PRODUCTS | {"cdist", "pairwise_distance", "cosine_similarity", "dist", "einsum"}
_REDUCED: Final = NORMS | {"sum", "mean"}
_DEEP: Final = 12
_ALIKE: Final = 5  # calls behind an embedding that are compared: `encode(x)`, computed twice


@dataclass(frozen=True, slots=True)
class _Hinge:
    place: Place
    margin: float
    low: float
    high: float


class MarginWithWrongSign(Rule, code="LOS190", severity=Severity.WARNING):
    not_applicable = "no training step was recorded"
    explained_by = ("mined-distance-constant", "nan-or-inf", "loss-detached-from-parameters")

    def __init__(self) -> None:
        self._seen: list[tuple[_Hinge, StepProgram]] = []
        self._steps = 0

    def on_step_program(self, event: StepProgram) -> None:
        if event.phase != "training" or not event.losses:
            return
        self._steps += 1
        if len(self._seen) < self._steps - 1:
            return  # a step without such a loss
        view = ProgramView(event)
        hinges = {hinge: found for hinge, made in _hinges(view) if (found := _reversed(view, *made)) is not None}
        if hinges and _only_way(view, frozenset(hinges)):
            self._seen.append((next(iter(hinges.values())), event))

    def on_run_ended(self, _: RunEnded) -> Findings:
        if len(self._seen) < STEPS or len(self._seen) < self._steps:
            return
        hinge, event = self._seen[-1]
        yield self.finding(
            event,
            f"The loss is `relu(a - b - {hinge.margin:.3g})` of two distances: it is zero where both are equal, so all "
            f"samples may get the same embedding. At step {event.step}, `a - b` lies between {hinge.low:.3g} and "
            f"{hinge.high:.3g}.",
            fix="Add the margin: `relu(positive - negative + margin)` for distances, "
            "`relu(negative - positive + margin)` for similarities.",
            evidence={"margin": hinge.margin, "smallest_difference": hinge.low, "largest_difference": hinge.high,
                      "steps": self._steps},
            place=hinge.place,
        )  # fmt: skip


def _hinges(view: ProgramView) -> list[tuple[int, tuple[int, Place]]]:
    """Values that are cut off below zero on the way to the loss, what was cut off, and where."""
    found = []
    for operation in view.operations:
        if operation.place is None or not operation.outputs or view.in_model(operation):
            continue
        result = operation.outputs[0]
        if result not in view.on_loss_path or not view.values[result].grad:
            continue
        source = _cut_off(view, operation)
        if source is not None:
            found.append((result, (source, operation.place)))
    return found


def _cut_off(view: ProgramView, operation: Operation) -> int | None:
    inputs, name = operation.inputs, operation.name
    if name in _RELU and len(inputs) == 1:
        return inputs[0]
    if name.rstrip("_") in CLAMPS and len(inputs) == 1:
        low = view.option(operation, "min", 1)
        high = view.option(operation, "max", 2)
        return inputs[0] if number_in(low) == 0 and high in (None, "None") and name != "clamp_max" else None
    if name in _MAXIMA and len(inputs) == 2:
        learned = [index for index in inputs if view.values[index].grad]
        zeros = [index for index in inputs if view.values[index].constant and view.values[index].largest == 0]
        return learned[0] if len(learned) == 1 and len(zeros) == 1 else None
    return None


def _reversed(view: ProgramView, value: int, place: Place) -> _Hinge | None:
    """The hinge `a - b - margin` of two distances that share an embedding."""
    terms = _terms(view, value, 1, 0)
    if terms is None or terms[1] >= 0 or sorted(sign for sign, _ in terms[0]) != [-1, 1]:
        return None
    (_, one), (_, other) = terms[0]
    first, second = _distance(view, one), _distance(view, other)
    if first is None or second is None or first.name != second.name or not _share(view, first, second):
        return None
    cut, margin = view.values[value], -terms[1]
    sizes = [view.values[index] for index in (one, other)]
    large = max((abs(end) for size in sizes for end in (size.smallest, size.mean) if end is not None), default=0.0)
    if cut.smallest is None or cut.largest is None or margin < TOLERANCE * large:
        return None
    return _Hinge(place, margin, cut.smallest + margin, cut.largest + margin)


def _terms(view: ProgramView, value: int, sign: int, depth: int) -> tuple[list[tuple[int, int]], float] | None:
    """A sum as its learned terms with their signs, and its constant; None if it holds something else."""
    value = view.through_views(value)
    maker, own = view.maker(value), view.values[value]
    if not own.grad:
        return ([], sign * own.mean) if own.mean is not None and own.constant else None
    if maker is None or depth > _DEEP or view.in_model(maker):
        return [(sign, value)], 0.0
    if maker.name in NEGATIONS:
        return _terms(view, maker.inputs[0], -sign, depth + 1)
    if maker.name not in ANY_ADDITION and maker.name not in ANY_DIFFERENCE:
        return [(sign, value)], 0.0
    if dict(maker.options).get("alpha") not in (None, "1"):
        return None
    found = _operands(maker)
    if found is None:
        return None
    terms: list[tuple[int, int]] = []
    constant = 0.0
    for position, operand in enumerate(found):
        subtracted = maker.name in REVERSED_SUBTRACTIONS if position == 0 else maker.name in ANY_DIFFERENCE
        if position == 1 and maker.name in REVERSED_SUBTRACTIONS:
            subtracted = False
        signed = -sign if subtracted else sign
        part = ([], signed * operand) if isinstance(operand, float) else _terms(view, operand, signed, depth + 1)
        if part is None:
            return None
        terms, constant = terms + part[0], constant + part[1]
    return terms, constant


def _operands(operation: Operation) -> tuple[int | float, int | float] | None:
    """The two operands of a sum: values, or Python numbers, in the order in which they were passed."""
    if len(operation.inputs) == 2:
        return operation.inputs[0], operation.inputs[1]
    numbers = [(key, number) for key, text in operation.options if (number := number_in(text)) is not None]
    numbers = [(key, number) for key, number in numbers if key in ("0", "1", "other")]
    if len(operation.inputs) != 1 or len(numbers) != 1:
        return None
    (key, number), value = numbers[0], operation.inputs[0]
    return (number, value) if key == "0" else (value, number)


def _distance(view: ProgramView, value: int) -> Operation | None:
    """The operation that compared two learned tensors, behind masks, picks and means."""
    for _ in range(_DEEP):
        maker = view.maker(view.through_views(value))
        if maker is None or not maker.inputs or view.in_model(maker):
            return None
        learned = [index for index in maker.inputs if view.values[index].grad]
        if maker.name in _PAIRED and len(learned) == 2:
            return maker
        source = view.maker(learned[0]) if len(learned) == 1 else None
        if maker.name in _REDUCED and source is not None:
            if source.name in MAGNITUDES and source.inputs and maker.name not in NORMS:
                source = view.maker(source.inputs[0]) or source
            two = [index for index in source.inputs if view.values[index].grad]
            compared = SUBTRACTIONS if maker.name in NORMS else SUBTRACTIONS | PRODUCTS
            if source.name in compared and len(two) == 2:
                return source
        if len(learned) != 1 or maker.name in MATRIX_PRODUCTS:
            return None
        value = learned[0]
    return None


def _share(view: ProgramView, one: Operation, other: Operation) -> bool:
    """Two elements of one matrix of all pairs, or two distances with a common side."""
    if one is other:
        sides = [view.values[index].shape for index in one.inputs[:2]]
        return one.name in (*MATRIX_PRODUCTS, "cdist") and all(len(side) >= 2 for side in sides)
    first, second = ([_key(view, index, 0) for index in operation.inputs[:2]] for operation in (one, other))
    return sum(key in second for key in first) == 1


def _key(view: ProgramView, value: int, depth: int) -> tuple[object, ...]:
    """The same for values that were computed alike from the same ones."""
    maker = view.maker(value)
    while maker is not None and maker.name in _TURNS and maker.inputs:
        value = maker.inputs[0]
        maker = view.maker(value)
    if maker is None or depth == _ALIKE or not maker.inputs:
        return (value,)
    return (maker.name, maker.options, *(_key(view, index, depth + 1) for index in maker.inputs))


def _only_way(view: ProgramView, hinges: frozenset[int]) -> bool:
    """No gradient reaches a parameter or a model around these hinges."""
    waiting, seen = list(view.program.losses), set(view.program.losses)
    while waiting:
        value = waiting.pop()
        if value in hinges or not view.values[value].grad:
            continue
        maker = view.maker(value)
        if maker is None:
            return False
        waiting += [index for index in maker.inputs if index not in seen]
        seen.update(maker.inputs)
    return True
