"""The order of the rows of tensors whose first dimension was two: `[a, b]` flattened has all of `b` for the first of
`a`, and so has `repeat_interleave(b)` of `a` rows; `repeat(b)` of `a` rows has all of `a` first.

Followed through operations that keep the rows. What cannot be followed has no order.
"""

from math import prod
from typing import Final, NamedTuple

from trueloop.event import Operation
from trueloop.event.operation_names import (
    CLAMPS,
    ELEMENTWISE,
    JOINS,
    LOGARITHMS,
    MAGNITUDES,
    MATRIX_PRODUCTS,
    NEGATIONS,
    RANDOM,
    RESHAPES,
    VIEWS,
)
from trueloop.rules.program_view import ProgramView

__all__ = ["RowOrder", "row_orders"]

_KEEPING: Final = CLAMPS | LOGARITHMS | MAGNITUDES | MATRIX_PRODUCTS | NEGATIONS | VIEWS | {
    "linear", "embedding", "layer_norm", "relu", "relu_", "gelu", "tanh", "sigmoid", "silu", "leaky_relu", "elu",
    "softplus", "exp", "sqrt", "softmax", "batch_norm", "sin", "cos", "nan_to_num", "clamp_",
}  # fmt: skip
"""Operations whose row r comes from row r of their first input, where the first size stays the same."""
_MOST: Final = 24  # operations that are followed back


class RowOrder(NamedTuple):
    """Rows are numbered `i * inner + j`: `i` counts to `outer`, `j` to `inner`."""

    outer: int
    inner: int
    maker: Operation
    picked: tuple[int, ...] = ()  # indexes that picked rows since


def row_orders(view: ProgramView) -> dict[int, RowOrder]:
    """The order of the rows of each value that has a known one."""
    found: dict[int, RowOrder] = {}
    for operation in view.operations:
        if operation.inputs and operation.outputs and view.values[operation.outputs[0]].shape:
            order = _made(view, operation, found) or _kept(view, operation, found)
            if order is not None:
                found[operation.outputs[0]] = order
    return found


def _made(view: ProgramView, operation: Operation, found: dict[int, RowOrder]) -> RowOrder | None:
    """Where an operation makes one dimension of two."""
    source = operation.inputs[0]
    before, after = view.values[source].shape, view.values[operation.outputs[0]].shape
    if len(before) < 1 or before[0] < 2 or after[0] <= before[0] or after[0] % before[0]:
        return None
    outer, inner = before[0], after[0] // before[0]
    if operation.name in RESHAPES:
        if len(before) < 2 or before[1] != inner or prod(before[2:]) != prod(after[1:]):
            return None
        flat = _flat_source(view, source, after[0])
        if flat is not None:
            return found.get(flat)
    elif _repeats_all(view, operation, inner):
        outer, inner = inner, outer
    elif operation.name != "repeat_interleave" or len(operation.inputs) != 1 or before[1:] != after[1:]:
        return None
    nobodys = view.values[source].constant or _is_noise(view, source)
    return None if nobodys else RowOrder(outer, inner, operation)


def _repeats_all(view: ProgramView, operation: Operation, times: int) -> bool:
    """All rows, and then all of them again: `x.repeat(k)`, `cat([x] * k)`."""
    if operation.name in JOINS:
        return len(set(operation.inputs)) == 1 and len(operation.inputs) == times
    ranks = (len(view.values[index].shape) for index in (operation.inputs[0], operation.outputs[0]))
    return operation.name in ("repeat", "tile") and len(set(ranks)) == 1


def _flat_source(view: ProgramView, value: int, rows: int) -> int | None:
    """The value that had these rows in one dimension before it was cut into two: there and back again changes
    nothing."""
    for _ in range(_MOST):
        maker = view.maker(value)
        if maker is None or not maker.inputs:
            return None
        before, after = view.values[maker.inputs[0]].shape, view.values[value].shape
        if maker.name in RESHAPES and before[:1] == (rows,) and prod(after[:2]) == rows:
            return maker.inputs[0]
        if (maker.name not in _KEEPING and maker.name not in ELEMENTWISE) or before[:2] != after[:2]:
            return None
        value = maker.inputs[0]
    return None


def _is_noise(view: ProgramView, value: int) -> bool:
    """Noise belongs to no row."""
    contents = view.contents(value)
    if any(view.values[index].origin != "operation" for index in contents):
        return False
    return any((maker := view.maker(index)) is not None and maker.name in RANDOM for index in contents)


def _kept(view: ProgramView, operation: Operation, found: dict[int, RowOrder]) -> RowOrder | None:
    """The order of the inputs, where row r of the output comes from row r of them."""
    after = view.values[operation.outputs[0]].shape
    if operation.name in ELEMENTWISE:  # a tensor of fewer dimensions is broadcast along the last ones
        shapes = {index: view.values[index].shape for index in operation.inputs}
        orders = {found[i] for i, s in shapes.items() if i in found and s[0] == after[0] and len(s) == len(after)}
        return orders.pop() if len(orders) == 1 else None
    source = operation.inputs[0]
    order = found.get(source)
    if order is None:
        return None
    if operation.name == "__getitem__" and _picks(view, operation):
        return order._replace(picked=(*order.picked, operation.inputs[1]))
    keeps = operation.name in _KEEPING or _cuts_other_dims(operation)
    return order if keeps and view.values[source].shape[0] == after[0] else None


def _cuts_other_dims(operation: Operation) -> bool:
    """`x[:, None]`, `x[..., 0]`: the rows stay as they are."""
    texts = [text for _, text in operation.options]
    whole = len(texts) == 1 and texts[0].startswith(("(slice(None, None, None)", "(Ellipsis"))
    return operation.name == "__getitem__" and len(operation.inputs) == 1 and whole


def _picks(view: ProgramView, operation: Operation) -> bool:
    return len(operation.inputs) == 2 and not operation.options and len(view.values[operation.inputs[1]].shape) == 1
