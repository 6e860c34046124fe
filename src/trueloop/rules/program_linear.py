"""A loss of a step program as a weighted sum: what it adds up, and by which factor an element of each part counts."""

from math import prod
from typing import Final, NamedTuple

from trueloop.event import Operation
from trueloop.event.operation_names import (
    ANY_ADDITION,
    ANY_DIFFERENCE,
    ANY_QUOTIENT,
    ANY_SCALING,
    ANY_SUBTRACTION,
    JOINS,
    LOSSES,
    NEGATIONS,
    REVERSED_SUBTRACTIONS,
    VIEWS,
)
from trueloop.rules.program_view import ProgramView

__all__ = ["Part", "parts_of"]

MOST: Final = 400  # operations to follow
_JOINS: Final = JOINS | {"stack"}


class Part(NamedTuple):
    """A value whose elements count in the loss with one weight."""

    value: int
    weight: float  # of one element; negative: the loss falls when it grows
    divided: float  # by how many elements means have divided it; 1: only sums


def parts_of(view: ProgramView, loss: int) -> list[Part]:
    """What a loss adds up, down to the first operation that is not linear."""
    found: list[Part] = []
    waiting = [Part(loss, 1.0, 1.0)]
    for _ in range(MOST):
        if not waiting:
            break
        part = waiting.pop(0)
        maker = view.maker(part.value)
        inner = None if maker is None or not maker.inputs else _inner(view, part, maker)
        if inner is None:
            found.append(part)
        else:
            waiting += inner
    return found


def _inner(view: ProgramView, part: Part, maker: Operation) -> list[Part] | None:
    """The parts that a value was made of by a linear operation; None: it is not linear."""
    name, inputs = maker.name, maker.inputs
    if name in ANY_ADDITION | ANY_DIFFERENCE:
        signs = (1.0, -1.0) if name in ANY_SUBTRACTION else (-1.0, 1.0) if name in REVERSED_SUBTRACTIONS else (1.0, 1.0)
        if len(inputs) == 1:
            reversed_ = name in REVERSED_SUBTRACTIONS or (
                name in ANY_SUBTRACTION and maker.options[:1] and maker.options[0][0] == "0"
            )
            signs = (-1.0 if reversed_ else 1.0, 0.0)
        return [_scaled(view, part, index, sign) for index, sign in zip(inputs, signs, strict=False)]
    if name in NEGATIONS:
        return [_scaled(view, part, inputs[0], -1.0)]
    if name in ANY_SCALING:
        return _product(view, part, maker)
    if name == "mean":
        count = _numel(view, inputs[0]) / max(1, _numel(view, part.value))
        return [Part(inputs[0], part.weight / count, part.divided * count)] if count else None
    if name == "sum" or name in VIEWS - {"dropout", "Dropout", "expand", "expand_as"}:
        return [Part(inputs[0], part.weight, part.divided)] if name not in LOSSES else None
    if name in _JOINS:
        return [Part(index, part.weight, part.divided) for index in inputs]
    return None


def _product(view: ProgramView, part: Part, maker: Operation) -> list[Part] | None:
    """A value times or over a number."""
    if len(maker.inputs) == 1:
        factor = _number(maker)
    else:
        constants = [index for index in maker.inputs if not view.values[index].grad and _numel(view, index) == 1]
        factor = view.values[constants[0]].mean if len(constants) == 1 else None
        if maker.name in ANY_QUOTIENT and constants and constants[0] == maker.inputs[0]:
            return None
    if factor is None or factor == 0:
        return None
    learned = next((index for index in maker.inputs if view.values[index].grad), maker.inputs[0])
    return [_scaled(view, part, learned, 1 / factor if maker.name in ANY_QUOTIENT else factor)]


def _number(maker: Operation) -> float | None:
    for position, text in maker.options:
        try:
            number = float(text)
        except ValueError:
            continue
        return None if maker.name in ANY_QUOTIENT and position == "0" else number
    return None


def _scaled(view: ProgramView, part: Part, index: int, factor: float) -> Part:
    """An input that was broadcast counts as often as it was repeated."""
    repeated = _numel(view, part.value) / max(1, _numel(view, index))
    return Part(index, part.weight * factor * max(1.0, repeated), part.divided)


def _numel(view: ProgramView, index: int) -> int:
    return prod(view.values[index].shape)
