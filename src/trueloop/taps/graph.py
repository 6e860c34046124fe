"""Reading autograd graphs: what made a tensor, what stands behind it, how old it is.

Nodes are only looked at; nothing is computed, and no reference is kept. A note put into a node's `metadata` lives exactly as
long as the node does, which is how we learn that a graph has been freed without keeping it alive.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from torch import Tensor

from trueloop.taps.note import SCALED, note_on

__all__ = ["LEAF", "LossShape", "node_name", "nodes", "reduction_of", "through_views"]

LEAF: Final = "AccumulateGrad"

_VIEWS: Final = (
    "View", "UnsafeView", "Reshape", "ReshapeAlias", "Squeeze", "Unsqueeze", "T", "Transpose", "Permute", "Select", "Slice",
    "Alias", "ToCopy", "Clone", "Expand", "Index", "As", "Unbind", "Split",
)  # fmt: skip
"""Operations that hand values on unchanged; a trailing BackwardN is cut off before comparing."""

_MEAN: Final = 1
"""torch's number for reduction='mean'."""


class LossShape(NamedTuple):
    """How a loss was put together, seen from its root."""

    mean: bool
    divided: bool
    scaled_by_amp: bool


def node_name(node: Any) -> str:
    """`NllLossBackward0`."""
    name = node.name()
    return name if isinstance(name, str) else type(node).__name__


def _plain(node: Any) -> str:
    return node_name(node).rstrip("0123456789").removesuffix("Backward")


def _next(node: Any) -> list[Any]:
    return [following for following, _ in node.next_functions if following is not None]


def through_views(tensor: Tensor) -> Iterator[Any]:
    """The nodes behind a tensor, nearest first, as long as they only hand values on; then the first one that does not."""
    node: Any = tensor.grad_fn
    for _ in range(12):
        if node is None:
            return
        yield node
        following = _next(node)
        if _plain(node) not in _VIEWS or not following:
            return
        node = following[0]


def nodes(root: Any, limit: int = 20_000) -> Iterator[Any]:
    """Every node of a graph, once, leaves included."""
    seen, waiting = {root}, [root]
    while waiting and len(seen) < limit:
        node = waiting.pop()
        yield node
        for following in _next(node):
            if following not in seen:
                seen.add(following)
                waiting.append(following)


def reduction_of(loss: Tensor) -> LossShape:
    """Is the loss a plain mean, and was it divided (or multiplied by a constant) after that?"""
    node: Any = loss.grad_fn
    divided = amp = False
    for _ in range(8):
        if node is None:
            break
        name, following = _plain(node), _next(node)
        if name in ("Mul", "Div") and len(following) == 1:
            if note_on(node, SCALED):
                amp = True
            else:
                divided = True
        elif name not in _VIEWS or not following:
            mean = name == "Mean" or getattr(node, "_saved_reduction", None) == _MEAN
            return LossShape(mean, divided, amp)
        node = following[0]
    return LossShape(False, divided, amp)
