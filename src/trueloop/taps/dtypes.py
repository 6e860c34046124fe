"""Number formats in an autograd graph: what its operations gave their results in, and what multiplied the loss.

A node keeps the type of each result of its operation, so the graph itself tells in which format the backward will
compute, however that came about: an autocast region around the model or inside of it, weights in half precision, a cast
by hand.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor

from trueloop.measure.graph import node_name
from trueloop.taps.graph_notes import SCALED, read_note
from trueloop.torch_private.autograd import result_metadata, saved

__all__ = ["HALVES", "DtypeSurvey", "dtypes_in", "manual_loss_scale"]

HALVES: Final = (torch.float16, torch.bfloat16)

_HANDS_ON: Final = (
    "View", "UnsafeView", "Reshape", "ReshapeAlias", "Squeeze", "Unsqueeze", "T", "Transpose", "Permute", "Select", "Slice", "Alias",
    "ToCopy", "Clone", "Expand", "Index", "AsStrided", "Unbind", "Split", "CopySlices", "Copy",
)  # fmt: skip
"""Operations that compute nothing: a cast to half precision and back is a simulation, no arithmetic."""
_OUT_OF_SIGHT: Final = ("Compiled", "CheckpointFunction")
"""Beginnings of names of nodes that stand for many operations which the graph does not show."""
_JOINS: Final = ("Add", "Sub", "Sum", "Mean", "Stack", "ToCopy", "View", "Squeeze", "Select", "Clone", "Mul", "Div")
"""What a loss is put together by, out of its terms."""
_TERMS: Final = 24
"""Nodes next to the root that are looked at for a factor."""


class DtypeSurvey(NamedTuple):
    """What a walk over a graph met."""

    formats: frozenset[torch.dtype]
    """Of 16 bits, that operations computed in."""
    leaves: dict[int, torch.dtype]
    """Identities of the tensors that gradients are accumulated in, with their formats."""
    whole: bool
    scaler: Any
    """A weak reference to the GradScaler that multiplied the loss or one of its terms; None without."""


def dtypes_in(roots: Sequence[Any], limit: int = 20_000) -> DtypeSurvey:
    seen, waiting = set(roots), list(roots)
    formats: set[torch.dtype] = set()
    leaves: dict[int, torch.dtype] = {}
    whole, scaler = True, None
    while waiting and len(seen) < limit:
        node = waiting.pop()
        following = node.next_functions
        if not following and (variable := getattr(node, "variable", None)) is not None:
            leaves[id(variable)] = variable.dtype
            continue
        name = _plain(node)
        if name not in _HANDS_ON:
            formats.update(kind for result in result_metadata(node) if (kind := result.dtype) in HALVES)
            whole = whole and not name.startswith(_OUT_OF_SIGHT)
        scaler = scaler or read_note(node, SCALED)
        for behind, _ in following:
            if behind is not None and behind not in seen:
                seen.add(behind)
                waiting.append(behind)
    return DtypeSurvey(frozenset(formats), leaves, whole and not waiting, scaler)


def manual_loss_scale(root: Any) -> float:
    """The largest product of constants that some term of a loss was multiplied by; 1 without any."""
    largest = 1.0
    waiting = [(root, 1.0)]
    for _ in range(_TERMS):
        if not waiting:
            break
        node, factor = waiting.pop(0)
        largest = max(largest, factor)
        name = _plain(node)
        if name in _JOINS:
            known = _constant(node, name) if name in ("Mul", "Div") else 1.0
            waiting += [(behind, factor * known) for behind, _ in node.next_functions if behind is not None]
    return largest


def _constant(node: Any, name: str) -> float:
    """What a product or quotient multiplies by, if one side of it is a single number without a graph."""
    sides = [behind for behind, _ in node.next_functions]
    if sum(side is not None for side in sides) != 1 or (name == "Div" and sides[0] is None):
        return 1.0
    value = saved(node, "self" if sides[0] is None else "other")
    if isinstance(value, Tensor):
        value = value.detach().item() if value.numel() == 1 else None
    if not isinstance(value, (int, float)):
        return 1.0
    number = abs(value)
    return number if name == "Mul" else 1.0 / number if number else 1.0


def _plain(node: Any) -> str:
    return node_name(node).rstrip("0123456789").removesuffix("Backward")
