"""Notes in graph nodes. A node carries a dictionary for such things (`metadata`) and drops it when it dies, so nothing
is kept alive."""

from __future__ import annotations

from typing import Any, Final

from torch import Tensor

__all__ = [
    "ACTIVATION",
    "BATCH",
    "FORWARD",
    "KEPT",
    "LOOKED",
    "SCALED",
    "SCALER_OFF",
    "WALKED",
    "read_note",
    "write_note",
]

ACTIVATION: Final = "trueloop.activation"
"""On the node of a softmax, sigmoid or clamp: (Place | None, name of the nn module class that applied it or '')."""
BATCH: Final = "trueloop.batch"
"""On the nodes of what a model made of a batch: an object that dies with the graph."""
FORWARD: Final = "trueloop.forward"
"""On the nodes of a model's outputs: an object that dies with the graph."""
SCALED: Final = "trueloop.scaled"
"""On the node of a loss that a GradScaler multiplied: a weak reference to the scaler."""
SCALER_OFF: Final = "trueloop.scaler_off"
"""On the node of a loss that a GradScaler gave back as it was, because it is switched off: a weak reference to the
scaler."""
KEPT: Final = "trueloop.kept"
"""On the node of a loss: an object that is counted until it dies with the graph."""
LOOKED: Final = "trueloop.looked"
"""On the node of a loss: what was read of it and of its targets, to be kept if a backward comes."""
WALKED: Final = "trueloop.walked"
"""On every node that was walked: the stamp of the first walk that met it."""


def write_note(tensor: Tensor, key: str, value: object) -> None:
    """Put a note on the node that made the tensor; nothing happens if none did."""
    node: Any = tensor.grad_fn
    if node is not None:
        node.metadata[key] = value


def read_note(node: Any, key: str) -> Any:
    """The note with this key; None if there is none."""
    return node.metadata.get(key)
