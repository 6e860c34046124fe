"""A tensor that requires grad, or that is not on the CPU, cannot become a numpy array."""

import re
from typing import Final

from torch import Tensor

from trueloop.crash.explanation import Explanation, described
from trueloop.crash.origin import origins
from trueloop.crash.scene import Scene

__all__ = ["explain"]

_GRAPH: Final = "Can't call numpy() on Tensor that requires grad"
_DEVICE: Final = re.compile(r"can't convert (\S+) device type tensor to numpy")


def explain(scene: Scene) -> Explanation | None:
    away = _DEVICE.search(scene.message)
    if (_GRAPH not in scene.message and away is None) or "DataLoader worker process" in scene.message:
        return None
    tensors = scene.tensors()
    receivers = (step.locals.get("self") for step in scene.beyond)
    inner = next((value for value in receivers if isinstance(value, Tensor)), None)
    tensor = inner if inner is not None else next((value for _, value in tensors), None)
    node = next((node for node, value in tensors if value is tensor), None)
    what = "The tensor" if tensor is None or node is None else f"{scene.named(node, '')} ({described(tensor)})"
    chain = ".detach()" if away is None or (tensor is not None and tensor.requires_grad) else ""
    if away is None:
        message = f"{what} still belongs to the autograd graph. A numpy array would silently lose it, so torch refuses."
    else:
        message, chain = f"{what} is on {away[1]}, but numpy reads CPU memory only.", f"{chain}.cpu()"
    name = scene.crash.text(node) if node is not None else "x"
    return scene.explanation(message, origins(scene, node), f"Write {name}{chain}.numpy(), or .item() for one number.")
