"""AdamW over a table of addresses, as a Triton kernel: one program for each piece of a tensor.

Imported only where Triton is installed.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from trueloop.kernels.triton_here import launching_on

__all__ = ["Addresses", "Numbers", "Table", "addresses", "count", "table", "update"]

PIECE = 1024
"""Numbers of a tensor that one program updates."""
WIDE = 16
"""Bytes that a thread reads at once, where tensors begin at a multiple of them."""


class Addresses(NamedTuple):
    """Of tensors, on their device."""

    values: Tensor
    aligned: bool
    """Whether each is a multiple of `WIDE`."""


class Table(NamedTuple):
    pieces: Tensor
    """[pieces, 7]: addresses of parameter, both averages and the step; how many numbers are left; the number of the
    tensor, and where in it the piece begins."""
    steps: Tensor
    """[tensors]: the addresses of all steps."""
    aligned: bool
    """Whether every piece begins at a multiple of `WIDE`."""


class Numbers(NamedTuple):
    """Of one update."""

    lr: float
    beta1: float
    beta2: float
    eps: float
    weight_decay: float


def addresses(values: Sequence[int], device: torch.device) -> Addresses:
    return Addresses(_on(device, values), not any(value % WIDE for value in values))


def table(parameters: list[Tensor], averages: list[Tensor], squares: list[Tensor], steps: list[Tensor]) -> Table:
    rows: list[tuple[int, ...]] = []
    for number, (parameter, average, square, step) in enumerate(zip(parameters, averages, squares, steps, strict=True)):
        begins = [each.data_ptr() for each in (parameter, average, square)]
        for start in range(0, parameter.numel(), PIECE):
            moved = (begin + 4 * start for begin in begins)
            rows.append((*moved, step.data_ptr(), parameter.numel() - start, number, start))
    device = parameters[0].device
    pieces = _on(device, rows).reshape(-1, 7)
    aligned = not any(value % WIDE for row in rows for value in row[:3])
    return Table(pieces, _on(device, [step.data_ptr() for step in steps]), aligned)


def _on(device: torch.device, values: Sequence[object]) -> Tensor:
    """From pinned memory: a plain copy would make the host wait for the device."""
    found = torch.tensor(values, dtype=torch.int64, pin_memory=device.type == "cuda")
    return found.to(device, non_blocking=True)


def update(where: Table, gradients: Addresses, numbers: Numbers) -> None:
    if not len(where.pieces):
        return
    lr, beta1, beta2, eps, weight_decay = numbers
    with launching_on(where.pieces):
        _update[(len(where.pieces),)](
            where.pieces, gradients.values, lr, beta1, beta2, 1 - beta1, 1 - beta2,
            *_two_floats(beta1), *_two_floats(beta2), eps, 1 - lr * weight_decay,
            ALIGNED=where.aligned and gradients.aligned, PIECE=PIECE, num_warps=4,
        )  # fmt: skip


def count(where: Table) -> None:
    """Each step goes up by one."""
    tensors = len(where.steps)
    with launching_on(where.steps):
        _count[(triton.cdiv(tensors, 256),)](where.steps, tensors, BLOCK=256, num_warps=4)


@lru_cache(maxsize=64)
def _two_floats(beta: float) -> tuple[float, float]:
    """log2(beta) as a sum of two float32, the type in which a kernel takes numbers: 1 - 0.999 ** 1 in one float32 is
    wrong by 6e-5."""
    if not beta:
        return -1e30, 0.0
    high = torch.tensor(math.log2(beta), dtype=torch.float32).item()
    return high, math.log2(beta) - high


@triton.jit  # type: ignore[untyped-decorator]
def _update(  # type: ignore[no-untyped-def]
    pieces, gradients, lr, beta1, beta2, rest1, rest2, high1, low1, high2, low2, eps, decay,
    ALIGNED: tl.constexpr, PIECE: tl.constexpr,  # noqa: N803
):  # fmt: skip
    row = pieces + tl.program_id(0) * 7
    number = tl.pointer_type(tl.float32)
    place = tl.arange(0, PIECE)
    inside = place < tl.load(row + 4)
    parameter, first = tl.load(row).to(number), tl.load(row + 1).to(number)
    second, gradient = tl.load(row + 2).to(number), tl.load(gradients + tl.load(row + 5)).to(number) + tl.load(row + 6)
    if ALIGNED:
        parameter, gradient = tl.multiple_of(parameter, 16), tl.multiple_of(gradient, 16)
        first, second = tl.multiple_of(first, 16), tl.multiple_of(second, 16)
    step = tl.load(tl.load(row + 3).to(number)).to(tl.float64) + 1.0
    bias1 = 1.0 - tl.exp2(step * high1 + step * low1)
    bias2 = 1.0 - tl.exp2(step * high2 + step * low2)
    slope = tl.load(gradient + place, mask=inside)
    average = tl.load(first + place, mask=inside) * beta1 + slope * rest1
    square = tl.load(second + place, mask=inside) * beta2 + slope * slope * rest2
    root = tl.sqrt(square) / tl.sqrt(bias2).to(tl.float32) + eps
    moved = (lr / bias1).to(tl.float32) * average / root
    tl.store(parameter + place, tl.load(parameter + place, mask=inside) * decay - moved, mask=inside)
    tl.store(first + place, average, mask=inside)
    tl.store(second + place, square, mask=inside)


@triton.jit  # type: ignore[untyped-decorator]
def _count(steps, tensors, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]  # noqa: N803
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = place < tensors
    step = tl.load(steps + place, mask=inside, other=0).to(tl.pointer_type(tl.float32))
    tl.store(step, tl.load(step, mask=inside) + 1.0, mask=inside)
