"""Nodes of autograd graphs: their names, the nodes behind a tensor, the parameters behind an output.

Nodes are only read: nothing is computed, and no reference is kept.
"""

import sys
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, Final

import torch
from torch import Tensor

from trueloop.event.operation_names import VIEW_NODES

__all__ = [
    "LEAF",
    "has_lost_leaves",
    "inputs_of",
    "is_view",
    "leaves_behind",
    "node_name",
    "nodes",
    "operation_name",
    "through_views",
]

LEAF: Final = "AccumulateGrad"
_MOST_VIEWS: Final = 12
_MOST_NODES: Final = 20_000
_MOST_NODES_OF_OUTPUTS: Final = 80_000


def node_name(node: Any) -> str:
    """`NllLossBackward0`."""
    name = node.name()
    return name if isinstance(name, str) else type(node).__name__


def operation_name(node: Any) -> str:
    """`NllLoss`."""
    return node_name(node).rstrip("0123456789").removesuffix("Backward")


def is_view(node: Any) -> bool:
    """Does the operation pass values on unchanged?"""
    return operation_name(node) in VIEW_NODES


def inputs_of(node: Any) -> list[Any]:
    """The nodes that made a node's inputs."""
    return [behind for behind, _ in node.next_functions if behind is not None]


def through_views(start: Any) -> Iterator[Any]:
    """The nodes behind a tensor (or from a node on), nearest first: every view, then the first other operation."""
    node: Any = start.grad_fn if isinstance(start, Tensor) else start
    for _ in range(_MOST_VIEWS):
        if node is None:
            return
        yield node
        behind = inputs_of(node)
        if not is_view(node) or not behind:
            return
        node = behind[0]


def nodes(*roots: Any, limit: int = _MOST_NODES) -> Iterator[Any]:
    """Every node of a graph, once, leaves included. The root of a tensor without a graph is None."""
    waiting = [root for root in roots if root is not None]
    seen = set(waiting)
    while waiting and len(seen) < limit:
        node = waiting.pop()
        yield node
        for behind in inputs_of(node):
            if behind not in seen:
                seen.add(behind)
                waiting.append(behind)


def leaves_behind(tensors: Iterable[Tensor]) -> set[int]:
    """Identities of the leaves of the tensors' graphs: the parameters that they were computed with."""
    walk = nodes(*(tensor.grad_fn for tensor in tensors), limit=_MOST_NODES_OF_OUTPUTS)
    return {id(node.variable) for node in walk if not node.next_functions and hasattr(node, "variable")}


def has_lost_leaves(tensor: Tensor) -> bool:
    """Was it computed from leaves that only its graph keeps alive? No module, optimizer or variable has them."""
    walk = nodes(tensor.grad_fn, limit=_MOST_VIEWS)
    found = [_references(node) for node in walk if not node.next_functions and hasattr(node, "variable")]
    return bool(found) and max(found) <= _references_to_a_lost_leaf()


def _references(node: Any) -> int:
    leaf = node.variable
    return sys.getrefcount(leaf)


@cache
def _references_to_a_lost_leaf() -> int:
    """Those of the graph and of the counting itself."""
    with torch.enable_grad():
        result = torch.zeros(1, requires_grad=True) + 1
    (leaf,) = inputs_of(result.grad_fn)
    return _references(leaf)
