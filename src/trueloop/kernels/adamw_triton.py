"""AdamW over a table of addresses, as a Triton kernel: one program for each piece of a tensor.

Imported only where Triton is installed.
"""

import math
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from trueloop.kernels.triton_here import launching_on

__all__ = ["Table", "table", "update"]

PIECE = 1024
"""Numbers of a tensor that one program updates."""


class Table(NamedTuple):
    pieces: Tensor
    """[pieces, 6]: addresses of parameter, gradient, both averages and the step, and how many numbers are left."""
    steps: Tensor
    """[tensors]: the addresses of all steps, to be counted up after the update."""
    aligned: bool
    """Whether every piece begins at a multiple of 16 bytes, so that a thread can read four numbers at once."""


def table(parameters: list[Tensor], gradients: list[Tensor], states: list[dict[str, Any]]) -> Table:
    rows: list[tuple[int, ...]] = []
    for parameter, gradient, state in zip(parameters, gradients, states, strict=True):
        kept = parameter, gradient, state["exp_avg"], state["exp_avg_sq"]
        for start in range(0, parameter.numel(), PIECE):
            moved = (each.data_ptr() + 4 * start for each in kept)
            rows.append((*moved, state["step"].data_ptr(), parameter.numel() - start))
    device = parameters[0].device
    steps = torch.tensor([state["step"].data_ptr() for state in states], dtype=torch.int64)
    pieces = torch.tensor(rows, dtype=torch.int64).reshape(-1, 6)
    aligned = not bool((pieces[:, :4] % 16).any())
    return Table(pieces.to(device), steps.to(device), aligned)


def update(where: Table, lr: float, beta1: float, beta2: float, eps: float, weight_decay: float) -> None:
    with launching_on(where.pieces):
        if len(where.pieces):
            _update[(len(where.pieces),)](
                where.pieces, lr, beta1, beta2, 1 - beta1, 1 - beta2, *_two_floats(beta1), *_two_floats(beta2), eps,
                1 - lr * weight_decay, ALIGNED=where.aligned, PIECE=PIECE, num_warps=4,
            )  # fmt: skip
        count = len(where.steps)
        _count[(triton.cdiv(count, 256),)](where.steps, count, BLOCK=256, num_warps=4)


def _two_floats(beta: float) -> tuple[float, float]:
    """log2(beta) as a sum of two float32, the type in which a kernel takes numbers: 1 - 0.999 ** 1 in one float32 is
    wrong by 6e-5."""
    if not beta:
        return -1e30, 0.0
    high = torch.tensor(math.log2(beta), dtype=torch.float32).item()
    return high, math.log2(beta) - high


@triton.jit  # type: ignore[untyped-decorator]
def _update(  # type: ignore[no-untyped-def]
    pieces, lr, beta1, beta2, rest1, rest2, high1, low1, high2, low2, eps, decay, ALIGNED: tl.constexpr,  # noqa: N803
    PIECE: tl.constexpr,  # noqa: N803
):  # fmt: skip
    row = pieces + tl.program_id(0) * 6
    number = tl.pointer_type(tl.float32)
    place = tl.arange(0, PIECE)
    inside = place < tl.load(row + 5)
    parameter, gradient = tl.load(row).to(number), tl.load(row + 1).to(number)
    first, second = tl.load(row + 2).to(number), tl.load(row + 3).to(number)
    if ALIGNED:
        parameter, gradient = tl.multiple_of(parameter, 16), tl.multiple_of(gradient, 16)
        first, second = tl.multiple_of(first, 16), tl.multiple_of(second, 16)
    step = tl.load(tl.load(row + 4).to(number)).to(tl.float64) + 1.0
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
def _count(steps, count, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]  # noqa: N803
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = place < count
    step = tl.load(steps + place, mask=inside, other=0).to(tl.pointer_type(tl.float32))
    tl.store(step, tl.load(step, mask=inside) + 1.0, mask=inside)
