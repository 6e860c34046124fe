"""Reads autograd graphs: what created a tensor, what is behind it, how old it is.

Nodes are only looked at; nothing is computed, and no reference is kept. A note put into a node's `metadata` lives
exactly as long as the node does, which is how we learn that a graph has been freed without keeping it alive.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from torch import Tensor

from trueloop.measure.graph import inputs_of, is_view, operation_name
from trueloop.taps.graph_notes import SCALED, WALKED, read_note
from trueloop.torch_private.autograd import result_metadata, saved

__all__ = ["LossShape", "Survey", "broadcast_in", "reduction_of", "scaler_of", "survey", "through_factors"]

_MEAN: Final = 1  # torch's code for reduction='mean'


class LossShape(NamedTuple):
    """How a loss was reduced, seen from its root."""

    mean: bool
    divided: bool
    scaled_by_amp: bool


def reduction_of(loss: Tensor) -> LossShape:
    """Is the loss a plain mean, and was it divided or multiplied by a constant after that?"""
    node: Any = loss.grad_fn
    divided = amp = False
    for _ in range(8):
        if node is None:
            break
        name, following = operation_name(node), inputs_of(node)
        if name in ("Mul", "Div") and len(following) == 1:
            if read_note(node, SCALED):
                amp = True
            else:
                divided = True
        elif not is_view(node) or not following:
            mean = name == "Mean" or saved(node, "reduction") == _MEAN
            return LossShape(mean, divided, amp)
        node = following[0]
    return LossShape(False, divided, amp)


def through_factors(loss: Tensor) -> Iterator[Any]:
    """The root of a loss, and the nodes behind constant factors (`loss / 4`, a GradScaler's)."""
    node: Any = loss.grad_fn
    for _ in range(4):
        if node is None:
            return
        yield node
        following = inputs_of(node)
        node = following[0] if operation_name(node) in ("Mul", "Div") and len(following) == 1 else None


def scaler_of(loss: Tensor) -> Any:
    """The GradScaler that scaled the loss, or None."""
    notes = (read_note(node, SCALED) for node in through_factors(loss))
    return next((scaler() for scaler in notes if scaler is not None), None)


# -- the whole graph --


class Survey(NamedTuple):
    """The result of a walk over a graph."""

    nodes: int
    whole: bool  # False if the walk ended at its limit
    leaves: set[int]  # ids of the leaf tensors
    stamps: list[Any]  # Stamps of earlier walks that visited nodes of this graph


def survey(roots: Sequence[Any], stamp: object, limit: int = 20_000) -> Survey:
    """Walk over the graph behind some nodes, and stamp each node that has no stamp.

    A node with the stamp of an earlier walk existed at that walk, whichever thread created it.
    """
    seen, waiting = set(roots), list(roots)
    leaves: set[int] = set()
    stamps: dict[int, Any] = {}
    while waiting and len(seen) < limit:
        node = waiting.pop()
        following = node.next_functions
        if not following:  # a leaf lives as long as its tensor, so it says nothing of the graph's age
            leaves.add(id(getattr(node, "variable", None)))
            continue
        earlier = node.metadata.setdefault(WALKED, stamp)
        if earlier is not stamp:
            stamps[id(earlier)] = earlier
        for behind, _ in following:
            if behind is not None and behind not in seen:
                seen.add(behind)
                waiting.append(behind)
    return Survey(len(seen), not waiting, leaves, list(stamps.values()))


# -- a pairwise loss written by hand --

_POINTWISE: Final = (
    "Mean", "Sum", "Pow", "Abs", "Mul", "Div", "Neg", "Sqrt", "Log", "Log1P", "Exp", "Cosh", "LogCosh", "Clamp",
    "ClampMin", "Add",
)  # fmt: skip
"""Operations between a loss and its subtraction: reductions, and elementwise functions."""


def broadcast_in(loss: Tensor) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """(shape of the prediction, shape after the subtraction) if [B, 1] and [B] were broadcast in `(prediction -
    target)` to [B, B].

    Only that accident is reported, not a dimension that was added on purpose (`x[:, None] - y[None]`).
    """
    node: Any = loss.grad_fn
    for _ in range(12):
        following = set(inputs_of(node)) if node is not None else set()
        if node is None or operation_name(node) == "Sub":
            break
        # x * x has the same node on both sides
        passes = operation_name(node) in _POINTWISE or is_view(node)
        node = following.pop() if passes and len(following) == 1 else None
    if node is None:
        return None
    result = _shape(node, 0)
    sides = [_shape(behind, number) for behind, number in node.next_functions if behind is not None]
    made = [behind for behind, _ in node.next_functions if behind is not None]
    if any(not behind.next_functions or operation_name(behind) == "Unsqueeze" for behind in made):
        return None
    if len(sides) == 2 and len(sides[0]) == len(sides[1]):
        return None
    wide = [side for side in sides if _became_square(side, result)]
    return (wide[0], result) if len(wide) == len(sides) and wide else None


def _shape(node: Any, number: int) -> tuple[int, ...]:
    """The shape of one output of an operation."""
    return tuple(int(size) for size in result_metadata(node)[number].shape)


def _became_square(side: tuple[int, ...], result: tuple[int, ...]) -> bool:
    """[B, 1, ...] or [B, ...] became [B, B, ...]."""
    batch, rest = result[:1], result[2:]
    square = len(result) >= 2 and result[0] == result[1] > 1
    return square and side in ((*batch, 1, *rest), (*batch, *rest))
