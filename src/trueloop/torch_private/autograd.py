"""Nodes of the autograd graph."""

from typing import Any

from torch import Tensor

__all__ = ["custom_function", "result_metadata", "saved", "saved_names", "saved_result"]


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
