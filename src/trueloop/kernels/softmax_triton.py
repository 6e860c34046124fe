"""Softmax of a row and its gradient as Triton kernels: one program holds one row (`softmax` says what they compute).

Imported only where Triton is installed.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from trueloop.kernels.triton_here import launching_on

__all__ = ["softmax", "softmax_backward"]

LOG2_E = tl.constexpr(1.4426950408889634)  # the hardware has an exponential of base 2
REGISTERS_PER_THREAD = 32  # numbers of a row that a thread holds; more of them spill, fewer leave lanes waiting


def softmax(scores: Tensor) -> Tensor:
    rows = _rows(scores)
    shares = torch.empty(scores.shape, dtype=scores.dtype, device=scores.device)
    count, columns = rows.shape
    if count:
        block = triton.next_power_of_2(columns)
        with launching_on(scores):
            _softmax[(count,)](rows, shares, columns, rows.stride(0), BLOCK=block, num_warps=_warps(block))
    return shares


def softmax_backward(arrived: Tensor, shares: Tensor) -> Tensor:
    incoming, outgoing = _rows(arrived), _rows(shares)
    gradient = torch.empty(shares.shape, dtype=shares.dtype, device=shares.device)
    count, columns = outgoing.shape
    if count:
        block = triton.next_power_of_2(columns)
        strides = incoming.stride(0), outgoing.stride(0)
        with launching_on(shares):
            _gradient[(count,)](incoming, outgoing, gradient, columns, *strides, BLOCK=block, num_warps=_warps(block))
    return gradient


def _rows(tensor: Tensor) -> Tensor:
    """[rows, columns] with columns side by side in memory; a copy only where the layout asks for one."""
    rows = tensor.reshape(-1, tensor.shape[-1])
    return rows if rows.stride(1) == 1 else rows.contiguous()


def _warps(block: int) -> int:
    return min(32, max(1, block // (32 * REGISTERS_PER_THREAD)))


@triton.jit  # type: ignore[untyped-decorator]
def _softmax(scores, shares, columns, stride, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]  # noqa: N803
    row = tl.program_id(0).to(tl.int64)
    place = tl.arange(0, BLOCK)
    score = tl.load(scores + row * stride + place, mask=place < columns, other=float("-inf")).to(tl.float32)
    power = tl.exp2((score - tl.max(score, 0)) * LOG2_E)
    share = power / tl.sum(power, 0)
    tl.store(shares + row * columns + place, share.to(shares.dtype.element_ty), mask=place < columns)


@triton.jit  # type: ignore[untyped-decorator]
def _gradient(  # type: ignore[no-untyped-def]
    arrived, shares, gradient, columns, arrived_stride, shares_stride, BLOCK: tl.constexpr  # noqa: N803
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    place = tl.arange(0, BLOCK)
    inside = place < columns
    incoming = tl.load(arrived + row * arrived_stride + place, mask=inside, other=0.0).to(tl.float32)
    share = tl.load(shares + row * shares_stride + place, mask=inside, other=0.0).to(tl.float32)
    product = incoming * share
    result = product - share * tl.sum(product, 0)
    tl.store(gradient + row * columns + place, result.to(gradient.dtype.element_ty), mask=inside)
