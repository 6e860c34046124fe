"""Where Triton's kernels can run: on a CUDA device with Triton installed, or, slowly, in Triton's interpreter.

TRITON_INTERPRET=1 python ...     # kernels run on the CPU, one block at a time: to look for a fault, not for speed
"""

import contextlib
import importlib.util
import os
import warnings
from functools import lru_cache
from typing import Final

import torch
from torch import Tensor

__all__ = ["INTERPRETED", "launching_on", "runs_triton"]

HAS_TRITON: Final = importlib.util.find_spec("triton") is not None
INTERPRETED: Final = os.environ.get("TRITON_INTERPRET") == "1"


def runs_triton(tensor: Tensor, operation: str) -> bool:
    """Whether `operation` launches its own kernel for this tensor; else it calls several operations of torch."""
    if not (tensor.is_cuda or INTERPRETED) or tensor.dtype == torch.float64:
        return False
    if not HAS_TRITON and not torch.compiler.is_compiling():  # a compiler cannot trace a warning
        _say_without(operation)
    return HAS_TRITON


def launching_on(tensor: Tensor) -> contextlib.AbstractContextManager[object]:
    """Triton launches on the current device, which need not be the tensor's."""
    return torch.cuda.device(tensor.device) if tensor.is_cuda else contextlib.nullcontext()


@lru_cache(maxsize=32)
def _say_without(operation: str) -> None:
    warnings.warn(
        f"{operation}: Triton is not installed. Several torch operations replace its kernel, which is slower.",
        stacklevel=4,
    )
