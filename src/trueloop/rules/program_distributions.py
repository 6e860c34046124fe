"""A softmax whose result is compared with a distribution: do both sum to 1 over the same dimension?"""

from typing import Final

from trueloop.event import Operation
from trueloop.event.operation_names import (
    ADDITIONS,
    CASTS,
    CLAMPS,
    DIFFERENCES,
    DISTANCE_LOSSES,
    NEGATIONS,
    PRODUCTS,
    QUOTIENTS,
    SCALINGS,
    VIEWS,
)
from trueloop.rules.program_view import ProgramView

__all__ = ["SOFTMAX", "compared_over", "normalized_over"]

SOFTMAX: Final = ("softmax", "log_softmax")
_STABLE: Final = CLAMPS | CASTS | {"log", "detach", "clone", "contiguous", "add", "data"}  # (p + 1e-8).log()
_SUMS: Final = ADDITIONS | NEGATIONS | SCALINGS | VIEWS | {"sum", "mean", "nansum", "nanmean"}
_MOST: Final = 10


def normalized_over(view: ProgramView, operation: Operation) -> int | None:
    """The dimension of a softmax, also where none was given: torch takes the first or the second one then."""
    if view.option(operation, "dim", 1) in (None, "None") and operation.inputs:
        rank = len(view.values[operation.inputs[0]].shape)
        return None if rank == 0 else 0 if rank in (1, 3) else 1
    return view.dim_of(operation)


def compared_over(view: ProgramView, operation: Operation, dim: int) -> Operation | None:
    """The operation that normalized the target of a softmax over another dimension."""
    scores = operation.inputs[0]
    shape = view.values[scores].shape
    if len(set(shape)) < len(shape):
        return None  # a batch against itself may be normalized over either dimension
    value = operation.outputs[0]
    for _ in range(_MOST):
        following = None
        for reader in view.readers.get(value, []):
            if (found := _target(view, reader, value, scores)) is not None:
                other, over = found
                return other if over != dim and shape[over] > 1 else None
            same = bool(reader.outputs) and view.values[reader.outputs[0]].shape == shape
            if reader.name in _STABLE and reader.inputs == (value,) and same:
                following = reader.outputs[0]
        if following is None:
            return None
        value = following
    return None


def _target(view: ProgramView, reader: Operation, value: int, scores: int) -> tuple[Operation, int] | None:
    """What normalized the other input of a comparison, and over which dimension."""
    if len(reader.inputs) != 2 or not reader.outputs or view.on_loss_path.isdisjoint(reader.outputs):
        return None
    other = reader.inputs[1] if reader.inputs[0] == value else reader.inputs[0]
    if other == value or view.values[other].grad or view.values[other].shape != view.values[value].shape:
        return None
    if reader.name in PRODUCTS:
        if not _only_summed(view, reader.outputs[0]):
            return None
    elif reader.name not in DIFFERENCES and reader.name not in DISTANCE_LOSSES and reader.name != "kl_div":
        return None
    if view.through_views(scores) in view.behind(other):
        return None
    return _normalization(view, other)


def _normalization(view: ProgramView, value: int) -> tuple[Operation, int] | None:
    shape = view.values[value].shape
    for _ in range(_MOST):
        maker = view.maker(value)
        if maker is None or not maker.inputs or view.values[maker.inputs[0]].shape != shape:
            return None
        if maker.name in SOFTMAX:
            over = normalized_over(view, maker)
            return None if over is None else (maker, over)
        if maker.name in QUOTIENTS and len(maker.inputs) == 2:
            total = view.maker(maker.inputs[1])
            if total is None or total.name != "sum" or total.inputs != maker.inputs[:1]:
                return None
            over = view.dim_of(total)
            kept = over is not None and view.values[maker.inputs[1]].shape == (*shape[:over], 1, *shape[over + 1 :])
            return (total, over) if over is not None and kept else None
        if maker.name not in _STABLE or len(maker.inputs) != 1:
            return None
        value = maker.inputs[0]
    return None


def _only_summed(view: ProgramView, value: int) -> bool:
    """The value becomes a loss by sums and means alone: it is a cross-entropy, no weighted mean that is read again."""
    for _ in range(_MOST):
        if view.values[value].shape == ():
            return True
        readers = [o for o in view.readers.get(value, []) if o.outputs and o.outputs[0] in view.on_loss_path]
        if len(readers) != 1 or readers[0].name not in _SUMS:
            return False
        value = readers[0].outputs[0]
    return False
