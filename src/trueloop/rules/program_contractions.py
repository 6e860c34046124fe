"""Over which dimension of a value does a product sum? Followed from the value through transposes and reshapes."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from trueloop.event import Operation
from trueloop.event.operation_names import MATRIX_PRODUCTS, PRODUCTS
from trueloop.rules.program_dims import Dims, dims_after
from trueloop.rules.program_view import ProgramView

__all__ = ["Contraction", "contractions"]

MOST: Final = 32  # values to follow
_PARTS: Final = {"unbind": 1, "select": 1, "chunk": 2, "split": 2}
"""Operations that cut a value along a dimension, and the position of that argument."""


class Contraction(NamedTuple):
    """A product that sums over a dimension of a value."""

    product: Operation
    position: int  # of the value, or what became of it, among the operands
    dim: int | None  # of the value; None: not known


def contractions(view: ProgramView, value: int) -> Iterator[Contraction]:
    """The matrix products that a value goes into, and its products element by element that are summed after that."""
    waiting: list[tuple[int, Dims]] = [(value, tuple(range(len(view.values[value].shape))))]
    for _ in range(MOST):
        if not waiting:
            return
        index, dims = waiting.pop(0)
        for reader in view.readers.get(index, []):
            yield from _of_product(view, reader, index, dims)
            if reader.outputs and reader.inputs[0] == index and (after := _dims_of_parts(view, reader, dims)):
                waiting += [(output, after) for output in reader.outputs]


def _of_product(view: ProgramView, reader: Operation, index: int, dims: Dims) -> Iterator[Contraction]:
    if len(reader.inputs) != 2 or not dims:
        return
    for position in (0, 1):
        if reader.inputs[position] != index:
            continue
        if reader.name in MATRIX_PRODUCTS:
            yield Contraction(reader, position, dims[-1] if position == 0 or len(dims) == 1 else dims[-2])
        elif reader.name == "einsum":
            yield from (Contraction(reader, position, dim) for dim in _of_equation(reader, position, dims))
        elif reader.name in PRODUCTS and view.values[reader.outputs[0]].shape == view.values[index].shape:
            for following in view.readers.get(reader.outputs[0], []):
                over = view.dim_of(following) if following.name == "sum" else None
                if over is not None:
                    yield Contraction(reader, position, dims[over])


def _of_equation(reader: Operation, position: int, dims: Dims) -> Iterator[int | None]:
    """`einsum("bij,bjd->bid", ...)` sums over j; None where the equation cannot be read."""
    equation = "".join(dict(reader.options).get("0", "").split())
    operands, arrow, result = equation.partition("->")
    letters = operands.split(",")
    if not arrow or "." in equation or len(letters) != 2 or len(letters[position]) != len(dims):
        yield None
        return
    for letter, dim in zip(letters[position], dims, strict=True):
        if letter not in result and letter in letters[1 - position]:
            yield dim


def _dims_of_parts(view: ProgramView, reader: Operation, dims: Dims) -> Dims | None:
    if reader.name not in _PARTS:
        return dims_after(view, reader, dims)
    text = view.option(reader, "dim", _PARTS[reader.name]) or "0"
    if not text.lstrip("-").isdigit():
        return None
    over = int(text) % len(dims)
    return dims if reader.name in ("chunk", "split") else (*dims[:over], *dims[over + 1 :])
