"""Nodes of the autograd graph."""

from typing import Any

import torch
from torch import Tensor

__all__ = ["custom_function", "forward_number", "mask_gradient", "node_number", "result_metadata", "saved"]
__all__ += ["saved_names", "saved_result"]


def forward_number() -> int:
    """Inside a dispatch mode, in the forward: the number of the node that autograd made for this operation. 2.11+"""
    return int(torch._C._autograd._get_sequence_nr()) - 1


def node_number() -> int | None:
    """Inside a dispatch mode, in a backward: the number of the node that is running; None outside a backward. 2.11+"""
    node = torch._C._current_autograd_node()
    return None if node is None else int(node._sequence_nr())


def saved(node: Any, name: str, default: Any = None) -> Any:
    """What an operation keeps for its backward under a name. Raises RuntimeError if it was freed or changed. 2.11+"""
    return getattr(node, f"_saved_{name}", default)


def saved_names(node: Any) -> list[str]:
    """The names of everything that an operation keeps for its backward. 2.11+"""
    return [name.removeprefix("_saved_") for name in dir(node) if name.startswith("_saved_")]


def saved_result(node: Any, name: str = "result") -> Tensor | None:
    """A tensor that an operation keeps for its backward; None if it is not saved, or if reading it would run a
    saved-tensor hook of the user's: checkpointing would recompute it. 2.11+"""
    raw = getattr(node, f"_raw_saved_{name}", None)
    if raw is None or getattr(raw, "unpack_hook", raw) is not None:
        return None
    try:
        value = saved(node, name)
    except RuntimeError:  # freed or overwritten: the user's backward will raise the same
        return None
    return value if isinstance(value, Tensor) else None


def result_metadata(node: Any) -> Any:
    """Shape and dtype of each result of an operation. 2.11+"""
    return node._input_metadata


def custom_function(node: Any) -> Any:
    """The `torch.autograd.Function` whose backward a node runs; None for torch's own operations. 2.11+"""
    return getattr(type(node), "_forward_cls", None)


def mask_gradient(tensor: Tensor, mask: Tensor) -> None:
    """Where the mask is True, the gradient of this tensor becomes 0. An output of DistributedDataParallel is a copy of
    the module's, made by one node of DDP's own, and a loss in the same output does not depend on it: there the gradient
    of the module's output is masked. 2.11+"""
    node: Any = tensor.grad_fn
    if type(node).__name__ != "_DDPSinkBackward":
        tensor.register_hook(lambda gradient: gradient.masked_fill(mask, 0.0))  # type: ignore[no-untyped-call]
        return
    maker, number = node.next_functions[tensor.output_nr]

    def masked(gradients: tuple[Tensor | None, ...]) -> tuple[Tensor | None, ...]:
        return tuple(
            each.masked_fill(mask, 0.0) if place == number and each is not None else each
            for place, each in enumerate(gradients)
        )

    maker.register_prehook(masked)
