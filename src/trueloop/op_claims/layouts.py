"""The same values at different places in memory."""

import math
from collections.abc import Callable
from typing import Final

import torch
from torch import Tensor

__all__ = ["LAYOUTS", "expanded_values", "strides_of"]

FAR: Final = 1_000_003  # Elements before a tensor with a large storage offset; odd, so that it is not aligned


def strides_of(tensor: Tensor, layout: str) -> tuple[int, ...]:
    """Of a tensor of this shape: 'contiguous', 'transposed' (the first dimension is the fastest) or 'stepped' (every
    second element)."""
    sizes = tensor.shape if layout != "transposed" else tensor.shape[::-1]
    step = 2 if layout == "stepped" else 1
    strides = [step * math.prod(max(size, 1) for size in sizes[dim + 1 :]) for dim in range(len(sizes))]
    return tuple(strides if layout != "transposed" else strides[::-1])


def _strided(layout: str, offset: int = 0) -> Callable[[Tensor], Tensor]:
    def lay(tensor: Tensor) -> Tensor:
        strides = strides_of(tensor, layout)
        span = sum((size - 1) * stride for size, stride in zip(tensor.shape, strides, strict=True)) + 1
        buffer = torch.zeros(offset + max(span, 1) + 1, dtype=tensor.dtype, device=tensor.device)
        view = buffer.as_strided(tensor.shape, strides, offset)
        return view.copy_(tensor)

    return lay


def expanded_values(tensor: Tensor) -> Tensor:
    """The values of a tensor that is expanded along its first dimension: all rows are the first one."""
    return tensor[:1].expand_as(tensor).contiguous() if tensor.dim() and tensor.shape[0] > 1 else tensor


def _expanded(tensor: Tensor) -> Tensor:
    return tensor[:1].expand_as(tensor) if tensor.dim() and tensor.shape[0] > 1 else tensor


LAYOUTS: Final[dict[str, Callable[[Tensor], Tensor]]] = {
    "transposed": _strided("transposed"),
    "sliced with step 2": _strided("stepped"),
    "at storage offset 1": _strided("contiguous", 1),
    f"at storage offset {FAR:,}": _strided("contiguous", FAR),
    "expanded (stride 0)": _expanded,
}
"""Name -> the tensor in that layout. Values stay, except for expanded ones: give those `expanded_values` first."""
