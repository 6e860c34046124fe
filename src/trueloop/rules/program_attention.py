"""Attention that a script wrote itself: is it normalized over the positions that it sums over?"""

from typing import Final

from trueloop.event import Operation
from trueloop.event.operation_names import ELEMENTWISE, MATRIX_PRODUCTS, VIEWS
from trueloop.rules.program_contractions import contractions
from trueloop.rules.program_view import ProgramView

__all__ = ["sums_over_other"]

FEWEST: Final = 3  # positions
_PASSES: Final = VIEWS | {"linear", "tanh", "relu", "leaky_relu", "elu", "gelu", "silu", "masked_fill", "masked_fill_"}
_RESCALES: Final = ("layer_norm", "rms_norm", "normalize", "div", "__truediv__", "true_divide", "norm")
"""What follows a sum whose weights do not add up to 1 on purpose."""


def sums_over_other(view: ProgramView, softmax: Operation, dim: int) -> bool:
    """The softmax of a table [.., n, n] of scores among the positions of one tensor runs over its second-last
    dimension, and every product of the table with values of these positions sums over the last one."""
    shape = view.values[softmax.inputs[0]].shape
    if len(shape) < 2 or shape[-1] != shape[-2] or shape[-1] < FEWEST or dim != len(shape) - 2:
        return False
    pair = _compared(view, softmax.inputs[0], shape[-1])
    weights = softmax.outputs[0]
    if pair is None or any(reader.name in ("sum", "norm") for reader in view.readers.get(weights, [])):
        return False
    found = list(contractions(view, weights))
    return bool(found) and all(
        c.dim == len(shape) - 1
        and c.position == 0
        and _are_values(view, c.product.inputs[1], pair, shape[-1])
        and not any(reader.name in _RESCALES for reader in view.readers.get(c.product.outputs[0], []))
        for c in found
    )


def _are_values(view: ProgramView, value: int, pair: tuple[int, int], positions: int) -> bool:
    """Values, not a distribution, that were computed from the positions whose scores these are."""
    smallest = view.values[value].smallest
    if smallest is None or smallest >= 0:
        return False
    one, other = (set(view.behind(index)) for index in pair)
    return any(_are_positions(view, index, positions) for index in view.behind(value) if index in one & other)


def _are_positions(view: ProgramView, index: int, positions: int) -> bool:
    """[batch, n, features], or [n, features] of one graph; not a parameter."""
    shape = view.values[index].shape
    return 2 <= len(shape) <= 3 and shape[-2] == positions and index in view.from_data


def _compared(view: ProgramView, scores: int, positions: int) -> tuple[int, int] | None:
    """The two tensors whose positions were compared with each other for a table of scores."""
    for _ in range(16):
        maker = view.maker(scores)
        if maker is None or not maker.inputs:
            return None
        pair = maker.inputs[:2]
        if len(maker.inputs) == 2 and maker.name in MATRIX_PRODUCTS | {"einsum"}:
            return pair[0], pair[1]
        square = [view.values[index].shape.count(positions) > 1 for index in pair]
        if maker.name in ELEMENTWISE and len(pair) == 2 and not any(square):
            rank = max(len(view.values[index].shape) for index in pair)
            return (pair[0], pair[1]) if rank > 2 else None
        if maker.name in ELEMENTWISE:
            learned = [index for index, s in zip(pair, square, strict=True) if s and index in view.learned]
            learned = [index for index in learned if index in view.from_data]
            if len(learned) != 1:
                return None
            scores = learned[0]
        elif maker.name in _PASSES:
            scores = maker.inputs[0]
        else:
            return None
    return None
