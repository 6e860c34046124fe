"""Private facts about tensors."""

from collections.abc import Callable
from operator import attrgetter
from typing import Final

import torch
from torch import Tensor, UntypedStorage

__all__ = ["has_bf16_instructions", "int8_matmul", "is_shard", "storage_id", "tensor_version", "view_base"]

view_base: Final[Callable[[Tensor], Tensor | None]] = attrgetter("_base")
"""The tensor that a view looks into; None for a tensor that is not a view. 2.11+"""
storage_id: Final[Callable[[UntypedStorage], int]] = attrgetter("_cdata")
"""Identifies a storage, fake ones included, whose `data_ptr()` is 0. 2.11+"""
int8_matmul: Final[Callable[[Tensor, Tensor], Tensor]] = torch._int_mm
"""int8 x int8 -> int32 matrix product, for dynamic quantization. 2.11+"""


def tensor_version(tensor: Tensor) -> int:
    """Counts in-place writes to a tensor: equal numbers mean that nobody wrote in between. 2.11+

    An inference tensor has no counter: always 0. It is not asked first: a lazy parameter refuses the question."""
    try:
        return tensor._version
    except RuntimeError:
        return 0


def is_shard(tensor: Tensor) -> bool:
    """Is it a DTensor? Asked by attribute, because importing DTensor initializes torch.distributed. 2.11+"""
    return hasattr(tensor, "_local_tensor") and hasattr(tensor, "device_mesh")


def has_bf16_instructions() -> bool:
    """Can oneDNN compute in bfloat16 on this CPU? 2.11+"""
    return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
