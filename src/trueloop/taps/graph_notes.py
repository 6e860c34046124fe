"""Notes on graph nodes, in their `metadata` dictionary: a note dies with its node, so nothing is kept alive."""

from typing import Any, Final

from torch import Tensor

__all__ = [
    "ACTIVATION",
    "BATCH",
    "FORWARD",
    "KEPT",
    "KEPT_OUTPUT",
    "LOOKED",
    "SCALED",
    "SCALER_OFF",
    "WALKED",
    "read_note",
]
__all__ += ["write_note"]

ACTIVATION: Final = "trueloop.activation"
"""On the node of a softmax, sigmoid or clamp: (Place | None, name of the nn module class that applied it or '')."""
BATCH: Final = "trueloop.batch"  # On the nodes of a model's outputs for a batch: an object that dies with the graph
FORWARD: Final = "trueloop.forward"  # On the nodes of a model's outputs: an object that dies with the graph
SCALED: Final = "trueloop.scaled"  # On the node of a loss that a GradScaler multiplied: a weak reference to the scaler
SCALER_OFF: Final = "trueloop.scaler_off"
"""On the node of a loss that a disabled GradScaler returned unchanged: a weak reference to the scaler."""
KEPT: Final = "trueloop.kept"  # On the node of a loss: an object that is counted until it dies with the graph
KEPT_OUTPUT: Final = "trueloop.kept_output"  # The same, on the node of an output of a model
LOOKED: Final = "trueloop.looked"  # On the node of a loss: facts about it and its targets, used if a backward follows
WALKED: Final = "trueloop.walked"  # On every node that a walk visited: the stamp of the first such walk


def write_note(tensor: Tensor, key: str, value: object) -> None:
    """Put a note on the node that created the tensor, if there is one."""
    node: Any = tensor.grad_fn
    if node is not None:
        node.metadata[key] = value


def read_note(node: Any, key: str) -> Any:
    """The note with this key, or None."""
    return node.metadata.get(key)
