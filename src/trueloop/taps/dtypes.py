"""Dtypes in an autograd graph, and the factors of the loss.

A node stores the dtype of each result, so the graph shows in which dtypes backward will compute, whatever the cause: an
autocast region, weights in half precision, an explicit cast.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor

from trueloop.event.operation_names import VIEW_NODES
from trueloop.measure.graph import operation_name
from trueloop.taps.graph_notes import SCALED, read_note
from trueloop.torch_private.autograd import result_metadata, saved

__all__ = ["HALVES", "DtypeSurvey", "dtypes_in", "manual_loss_scale"]

HALVES: Final = (torch.float16, torch.bfloat16)

_NO_ARITHMETIC: Final = VIEW_NODES | {"CopySlices", "Copy"}
"""Operations without arithmetic: a cast to half precision and back is only a simulation."""
_OPAQUE: Final = ("Compiled", "CheckpointFunction")  # Prefixes of nodes that stand for many hidden operations
_JOINS: Final = ("Add", "Sub", "Sum", "Mean", "Stack", "ToCopy", "View", "Squeeze", "Select", "Clone", "Mul", "Div")
"""Operations that combine the terms of a loss."""
_TERMS: Final = 24  # Nodes next to the root that are searched for a factor


class DtypeSurvey(NamedTuple):
    """The result of a walk over a graph."""

    formats: frozenset[torch.dtype]  # 16-bit dtypes that operations computed in
    leaves: dict[int, torch.dtype]  # id -> dtype of the leaves
    whole: bool
    scaler: Any  # A weak reference to the GradScaler that scaled the loss or one of its terms, or None


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
        name = operation_name(node)
        if name not in _NO_ARITHMETIC:
            formats.update(kind for result in result_metadata(node) if (kind := result.dtype) in HALVES)
            whole = whole and not name.startswith(_OPAQUE)
        scaler = scaler or read_note(node, SCALED)
        for behind, _ in following:
            if behind is not None and behind not in seen:
                seen.add(behind)
                waiting.append(behind)
    return DtypeSurvey(frozenset(formats), leaves, whole and not waiting, scaler)


def manual_loss_scale(root: Any) -> float:
    """The largest constant factor of any term of a loss; 1 without one."""
    largest = 1.0
    waiting = [(root, 1.0)]
    for _ in range(_TERMS):
        if not waiting:
            break
        node, factor = waiting.pop(0)
        largest = max(largest, factor)
        name = operation_name(node)
        if name in _JOINS:
            known = _constant(node, name) if name in ("Mul", "Div") else 1.0
            waiting += [(behind, factor * known) for behind, _ in node.next_functions if behind is not None]
    return largest


def _constant(node: Any, name: str) -> float:
    """The factor of a product or quotient, if one side of it is a single number without a graph."""
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
