"""A tensor that still belongs to a graph, or that is not on the CPU, was to become a numpy array."""

from __future__ import annotations

import ast
import re
from typing import Final

from torch import Tensor

from trueloop.crash.explanation import Explanation, described
from trueloop.crash.origin import origin
from trueloop.crash.scene import Scene

__all__ = ["explain"]

_GRAPH: Final = "Can't call numpy() on Tensor that requires grad"
"""How torch says it of a tensor with a graph."""
_DEVICE: Final = re.compile(r"can't convert (\S+) device type tensor to numpy")
"""How torch says it of a tensor elsewhere."""


def explain(scene: Scene) -> Explanation | None:
    away = _DEVICE.search(scene.message)
    if (_GRAPH not in scene.message and away is None) or "DataLoader worker process" in scene.message:
        return None
    tensors = [(node, value) for node, value in scene.operands() if isinstance(value, Tensor)]
    inner = next(
        (step.locals.get("self") for step in scene.beyond if isinstance(step.locals.get("self"), Tensor)), None
    )
    tensor = inner if inner is not None else next((value for _, value in tensors), None)
    node: ast.AST | None = next((node for node, value in tensors if value is tensor), None)
    name = scene.crash.text(node) if node is not None else "the tensor"
    what = f"`{name}` ({described(tensor)})" if isinstance(tensor, Tensor) and node is not None else "The tensor"
    chain = ".detach()" if away is None or (isinstance(tensor, Tensor) and tensor.requires_grad) else ""
    chain += ".cpu()" if away is not None else ""
    if away is not None:
        message = f"{what} is on {away[1]}, and numpy reads CPU memory only."
    else:
        message = (
            f"{what} still belongs to the autograd graph; as a numpy array it would lose it silently, so torch refuses."
        )
    return Explanation(
        "to-numpy",
        message,
        origin(scene, scene.crash, node).lines,
        f"Write {name if node is not None else 'x'}{chain}.numpy(); for one number, .item().",
        scene.place,
    )
