"""A matrix product in tiles, with what follows it done before the tile leaves the chip.

    c = matmul(a, b)                       # [M, K] @ [K, N] in float16 or bfloat16, added up in float32
    c = reference(a, b)                    # the same in plain torch

A program computes one tile of the result after the other and walks along K for each. Other dtypes, rows in memory that
are not a multiple of 16 bytes apart, and devices without Triton are left to torch.
cuBLAS is faster for a plain product (docs/performance.md): the engine does not use this. `mlp` builds on it, because
there a pass over memory is saved.
"""

from typing import Any, Final

import torch
from torch import Tensor

from trueloop.kernels.triton_here import runs_triton

__all__ = ["fits", "matmul", "reference"]

NARROW: Final = (torch.float16, torch.bfloat16)


def matmul(a: Tensor, b: Tensor) -> Tensor:
    product: Tensor = _product(a, b)
    return product


def reference(a: Tensor, b: Tensor) -> Tensor:
    return a @ b


def fits(a: Tensor, b: Tensor) -> bool:
    """Whether the Triton kernel computes this product."""
    both = a.dtype == b.dtype and a.dtype in NARROW and a.dim() == b.dim() == 2 and b.shape[-1] % 8 == 0
    return both and runs_triton(a, "matmul") and _in_rows(a) and _in_rows(b)


def _in_rows(matrix: Tensor) -> bool:
    """Whether the copy engine can read it, as it is or transposed: lines that are a multiple of 16 bytes apart."""
    if not matrix.numel():
        return False
    far, near = matrix.stride() if matrix.stride(1) == 1 else matrix.stride()[::-1]
    return near == 1 and far % 8 == 0 and far >= min(matrix.shape)


@torch.library.custom_op("trueloop::matmul", mutates_args=())
def _product(a: Tensor, b: Tensor) -> Tensor:
    if a.dim() != 2 or b.dim() != 2 or a.shape[1] != b.shape[0] or a.dtype != b.dtype:
        raise ValueError(
            f"matmul needs [M, K] and [K, N] of one dtype, but they are {list(a.shape)} {a.dtype} and {list(b.shape)} "
            f"{b.dtype}. Nothing was computed."
        )
    if fits(a, b):
        from trueloop.kernels import matmul_triton as tiled  # only here: it needs Triton

        return tiled.matmul(a, b)
    return reference(a, b)


@_product.register_fake
def _(a: Tensor, b: Tensor) -> Tensor:
    return a.new_empty((a.shape[0], b.shape[1]))


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _backward(ctx: Any, arrived: Tensor) -> tuple[Tensor | None, Tensor | None]:
    a, b = ctx.saved_tensors
    for_a, for_b = ctx.needs_input_grad
    return (matmul(arrived, b.t()) if for_a else None), (matmul(a.t(), arrived) if for_b else None)


_product.register_autograd(_backward, setup_context=_keep)
