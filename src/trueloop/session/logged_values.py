"""Values that the user's code logs: numbers, and tensors with one element."""

from collections.abc import Mapping
from typing import Any

import torch

from trueloop.errors import Misuse

__all__ = ["plain_numbers"]


def plain_numbers(values: Mapping[str, Any], call: str) -> dict[str, Any]:
    """Tensors stay where they are, without a shape. Raises Misuse for anything else; `call`: what the user typed."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        if value.numel() != 1 if isinstance(value, torch.Tensor) else not hasattr(value, "__float__"):
            raise Misuse(f"{call}({name}=...) got a {type(value).__name__}: give a number, or a tensor of one.")
        found[name] = value.reshape(()) if isinstance(value, torch.Tensor) else float(value)
    return found
