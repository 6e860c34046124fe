"""LayerNorm and RMSNorm as Triton kernels: `norm` says what they compute. Imported only where Triton is installed."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from trueloop.kernels.triton_here import launching_on

__all__ = ["norm", "norm_backward"]

PROGRAMS_PER_PROCESSOR = 4  # of the gradient: enough to hide each other's loads, few enough partial sums
AT_ONCE = 4096  # numbers that a program of the forward has in flight: several rows, where they are narrow


def norm(x: Tensor, weight: Tensor, bias: Tensor | None, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    rows, columns = _rows(x), x.shape[-1]
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    scale = torch.empty(x.shape[:-1], dtype=torch.float32, device=x.device)
    mean = torch.empty_like(scale) if bias is not None else scale.new_empty(0)
    block = triton.next_power_of_2(columns)
    several = max(1, AT_ONCE // block)
    with launching_on(x):
        _norm[(triton.cdiv(len(rows), several),)](
            rows, y, weight.contiguous(), weight if bias is None else bias.contiguous(), mean, scale, len(rows),
            columns, rows.stride(0), eps, CENTRED=bias is not None, ROWS=several, BLOCK=block,
            num_warps=_warps(several * block),
        )  # fmt: skip
    return y, mean, scale


def norm_backward(
    arrived: Tensor, x: Tensor, weight: Tensor, mean: Tensor, scale: Tensor, has_bias: bool
) -> tuple[Tensor, Tensor, Tensor]:
    rows, incoming, columns = _rows(x), _rows(arrived), x.shape[-1]
    of_x = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    block = triton.next_power_of_2(columns)
    programs = min(len(rows), _processors(x) * PROGRAMS_PER_PROCESSOR)
    parts = torch.empty((2, programs, columns), dtype=torch.float32, device=x.device)
    of_weight, of_bias = torch.empty_like(weight), torch.empty_like(weight)
    with launching_on(x):
        _norm_gradient[(programs,)](
            incoming, rows, weight.contiguous(), mean, scale, of_x, parts[0], parts[1], len(rows), columns,
            incoming.stride(0), rows.stride(0), CENTRED=has_bias, BLOCK=block, num_warps=_warps(block),
        )  # fmt: skip
        _added[(triton.cdiv(columns, 32),)](parts[0], parts[1], of_weight, of_bias, programs, columns, num_warps=4)
    return of_x, of_weight, of_bias


def _rows(tensor: Tensor) -> Tensor:
    rows = tensor.reshape(-1, tensor.shape[-1])
    return rows if rows.stride(1) == 1 else rows.contiguous()


def _warps(numbers: int) -> int:
    return min(16, max(1, numbers // 512))


def _processors(tensor: Tensor) -> int:
    return torch.cuda.get_device_properties(tensor.device).multi_processor_count if tensor.is_cuda else 1


@triton.jit  # type: ignore[untyped-decorator]
def _norm(  # type: ignore[no-untyped-def]
    x, y, weight, bias, mean, scale, rows, columns, stride, eps, CENTRED: tl.constexpr, ROWS: tl.constexpr,  # noqa: N803
    BLOCK: tl.constexpr,  # noqa: N803
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    place = tl.arange(0, BLOCK)
    inside = (row < rows)[:, None] & (place < columns)[None, :]
    value = tl.load(x + row[:, None] * stride + place[None, :], mask=inside, other=0.0).to(tl.float32)
    if CENTRED:
        average = tl.sum(value, 1) / columns
        value = tl.where(inside, value - average[:, None], 0.0)
        tl.store(mean + row, average, mask=row < rows)
    factor = tl.rsqrt(tl.sum(value * value, 1) / columns + eps)
    tl.store(scale + row, factor, mask=row < rows)
    gain = tl.load(weight + place, mask=place < columns, other=0.0).to(tl.float32)
    result = value * factor[:, None] * gain[None, :]
    if CENTRED:
        result += tl.load(bias + place, mask=place < columns, other=0.0).to(tl.float32)[None, :]
    tl.store(y + row[:, None] * columns + place[None, :], result.to(y.dtype.element_ty), mask=inside)


@triton.jit  # type: ignore[untyped-decorator]
def _norm_gradient(  # type: ignore[no-untyped-def]
    arrived, x, weight, mean, scale, of_x, weight_parts, bias_parts, rows, columns, arrived_stride, x_stride,
    CENTRED: tl.constexpr, BLOCK: tl.constexpr,  # noqa: N803
):  # fmt: skip
    """One row at a time: with four at once it took half as long again on an H200."""
    program = tl.program_id(0)
    place = tl.arange(0, BLOCK)
    inside = place < columns
    gain = tl.load(weight + place, mask=inside, other=0.0).to(tl.float32)
    of_weight = tl.zeros([BLOCK], dtype=tl.float32)
    of_bias = tl.zeros([BLOCK], dtype=tl.float32)
    row = program.to(tl.int64)
    for _ in range(program, rows, tl.num_programs(0)):
        incoming = tl.load(arrived + row * arrived_stride + place, mask=inside, other=0.0).to(tl.float32)
        value = tl.load(x + row * x_stride + place, mask=inside, other=0.0).to(tl.float32)
        factor = tl.load(scale + row)
        if CENTRED:
            value = tl.where(inside, value - tl.load(mean + row), 0.0)
            of_bias += incoming
        unit = value * factor
        of_weight += incoming * unit
        through = incoming * gain
        inner = through - unit * (tl.sum(through * unit, 0) / columns)
        if CENTRED:
            inner -= tl.sum(through, 0) / columns
        tl.store(of_x + row * columns + place, (inner * factor).to(of_x.dtype.element_ty), mask=inside)
        row += tl.num_programs(0)
    tl.store(weight_parts + program * columns + place, of_weight, mask=inside)
    tl.store(bias_parts + program * columns + place, of_bias, mask=inside)


@triton.jit
def _added(weight_parts, bias_parts, of_weight, of_bias, programs, columns):  # type: ignore[no-untyped-def]
    """The parts of all programs, in the order of their numbers."""
    place = tl.program_id(0) * 32 + tl.arange(0, 32)
    inside = place < columns
    weight_sum = tl.zeros([32, 32], dtype=tl.float32)
    bias_sum = tl.zeros([32, 32], dtype=tl.float32)
    for first in range(0, programs, 32):
        number = first + tl.arange(0, 32)
        at = number[:, None] * columns + place[None, :]
        there = (number < programs)[:, None] & inside[None, :]
        weight_sum += tl.load(weight_parts + at, mask=there, other=0.0)
        bias_sum += tl.load(bias_parts + at, mask=there, other=0.0)
    tl.store(of_weight + place, tl.sum(weight_sum, 0).to(of_weight.dtype.element_ty), mask=inside)
    tl.store(of_bias + place, tl.sum(bias_sum, 0).to(of_bias.dtype.element_ty), mask=inside)
