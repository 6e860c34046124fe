"""Where the dimensions of a value go: through reductions, transposes, reshapes and indexing."""

import ast
from typing import Final

from trueloop.event import Operation
from trueloop.event.operation_names import CASTS, CLAMPS, ELEMENTWISE, NEGATIONS, SHAPES
from trueloop.rules.program_view import ProgramView

__all__ = ["Dims", "dims_after"]

Dims = tuple[int | None, ...]  # for each dimension of a value: which one of an earlier value it is; None: not known

_SAME: Final = CASTS | CLAMPS | NEGATIONS | {
    "clone", "contiguous", "detach", "log", "exp", "dropout", "identity", "alias", "sqrt", "nan_to_num",
}  # fmt: skip
_REDUCTIONS: Final = ("mean", "sum", "logsumexp", "amax", "amin", "max", "min", "median", "prod", "nanmean")


def dims_after(view: ProgramView, operation: Operation, dims: Dims) -> Dims | None:
    """The dimensions of the first output, given those of the first input; None if they cannot be followed."""
    before = view.values[operation.inputs[0]].shape
    after = view.values[operation.outputs[0]].shape
    name = operation.name
    if name in _REDUCTIONS:
        return _reduced(view, operation, dims, len(after))
    if name in ("transpose", "swapaxes", "swapdims", "t", "mT", "T"):
        return _transposed(view, operation, dims)
    if name == "permute":
        order = _numbers(view.option(operation, "dims", 1)) or _positions(operation)
        return tuple(dims[i] for i in order) if order is not None and len(order) == len(dims) else None
    if name == "__getitem__":
        return _indexed(operation, dims, len(after))
    if name in SHAPES:
        return _reshaped(before, after, dims)
    alone = all(index not in view.learned for index in operation.inputs[1:])  # a number or a mask, no second score
    if name in _SAME or (name in ELEMENTWISE and alone):
        return dims if before == after else None
    return None


def _numbers(text: str | None) -> tuple[int, ...] | None:
    try:
        value = ast.literal_eval(text) if text is not None else None
    except (ValueError, SyntaxError):
        return None
    if isinstance(value, int) and not isinstance(value, bool):
        return (value,)
    return value if isinstance(value, tuple) and all(isinstance(item, int) for item in value) else None


def _positions(operation: Operation) -> tuple[int, ...] | None:
    """Numbers that were given as arguments of their own: `permute(0, 2, 1)`."""
    return _numbers("(" + "".join(f"{text}, " for name, text in operation.options if name.isdigit()) + ")")


def _reduced(view: ProgramView, operation: Operation, dims: Dims, rank: int) -> Dims | None:
    over = _numbers(view.option(operation, "dim", 1))
    if over is None:
        return None
    removed = {number % len(dims) for number in over}
    if rank == len(dims):  # keepdim
        return tuple(None if number in removed else dim for number, dim in enumerate(dims))
    return tuple(dim for number, dim in enumerate(dims) if number not in removed)


def _transposed(view: ProgramView, operation: Operation, dims: Dims) -> Dims | None:
    if operation.name == "mT":
        pair: tuple[int, ...] | None = (-1, -2)
    elif operation.name in ("t", "T"):
        pair = (0, 1) if len(dims) == 2 else None
    else:
        one = view.option(operation, "dim0", 1) or view.option(operation, "axis0", 1)
        other = view.option(operation, "dim1", 2) or view.option(operation, "axis1", 2)
        pair = _numbers(f"({one}, {other})")
    if pair is None or len(dims) < 2:
        return None
    one_, other_ = (number % len(dims) for number in pair)
    found = list(dims)
    found[one_], found[other_] = found[other_], found[one_]
    return tuple(found)


def _indexed(operation: Operation, dims: Dims, rank: int) -> Dims | None:
    """`x[:, -1]` or `x[:, :, 3]`: numbers and slices only."""
    if len(operation.inputs) != 1 or len(operation.options) != 1:
        return None
    items = _split(operation.options[0][1])
    if not items or any(item in ("Ellipsis", "None", "tensor") for item in items) or len(items) > len(dims):
        return None
    kept = [dim for item, dim in zip(items, dims, strict=False) if item.startswith("slice")]
    found = (*kept, *dims[len(items) :])
    return found if len(found) == rank else None


def _split(text: str) -> list[str]:
    """The items of `(slice(None, None, None), -1)`."""
    if not text.startswith("("):
        return [text]
    items, depth, current = [], 0, ""
    for letter in text[1:-1]:
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            items.append(current.strip())
            current = ""
        else:
            current += letter
    return [item for item in [*items, current.strip()] if item]


def _reshaped(before: tuple[int, ...], after: tuple[int, ...], dims: Dims) -> Dims | None:
    """Dimensions that keep their place in memory and their size; merged and split ones are unknown."""
    found: list[int | None] = []
    start, at = 1, {}
    for number, size in enumerate(before):
        if size > 1:
            at[(start, size)] = dims[number]
        start *= size
    start = 1
    for size in after:
        found.append(at.get((start, size)) if size > 1 else None)
        start *= size
    return tuple(found)
