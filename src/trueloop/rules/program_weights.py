"""Does a loss give its rows different weights, or pick some of them?"""

from math import prod
from typing import Final

from trueloop.event import Operation
from trueloop.event.operation_names import ANY_PRODUCT, CLASS_LOSSES, LOSSES, MATRIX_PRODUCTS, NEGATIONS, VIEWS
from trueloop.rules.program_view import ProgramView

__all__ = ["weighs_rows"]

_COMBINES: Final = ANY_PRODUCT | MATRIX_PRODUCTS | {"dot", "inner", "where", "__getitem__", "masked_select"}
_SELECTS: Final = ("topk", "sort", "kthvalue")


def weighs_rows(view: ProgramView) -> bool:
    """The losses of single rows meet a tensor of different numbers without a graph, or the smallest are picked."""
    return any(_weighs(view, operation) for operation in view.operations if operation.model < 0)


def _weighs(view: ProgramView, operation: Operation) -> bool:
    if operation.name in LOSSES - CLASS_LOSSES:
        return any(_is_weight(view, index, operation.inputs[0]) for index in operation.inputs[2:])
    rows = [index for index in operation.inputs if _is_loss_of_rows(view, index)]
    if operation.name in _SELECTS:
        return bool(rows)
    return operation.name in _COMBINES and any(
        _is_weight(view, other, rows[0]) for other in operation.inputs if rows and other != rows[0]
    )


def _is_loss_of_rows(view: ProgramView, value: int) -> bool:
    """Not reduced: one number for each row; a gather takes the log-probability of each row's class."""
    for _ in range(8):
        maker = view.maker(value)
        if maker is None or not view.values[value].grad or not maker.inputs or maker.model >= 0:
            return False
        if maker.name in LOSSES or maker.name == "gather":
            return prod(view.values[value].shape) > 1
        if maker.name not in VIEWS | NEGATIONS | ANY_PRODUCT or len(maker.inputs) > 1:
            return False
        value = maker.inputs[0]
    return False


def _is_weight(view: ProgramView, value: int, rows: int) -> bool:
    weight = view.values[value]
    counts = prod(weight.shape), prod(view.values[rows].shape)
    return not weight.grad and not weight.constant and 1 < counts[0] <= counts[1]
