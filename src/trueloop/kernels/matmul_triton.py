"""A tiled matrix product in Triton, with bias, GELU or GELU's gradient at its end. Imported only where Triton is.

    matmul(a, b)                    a @ b
    matmul_gelu(a, b, bias)         gelu(a @ b + bias), and a @ b + bias for the gradient
    matmul_gelu_backward(a, b, z)   (a @ b) * gelu'(z)

As many programs as the GPU has multiprocessors, each of them taking tile after tile: while the tensor cores work on one
tile, the end of the one before is computed and stored. Tiles are moved by the copy engine of Hopper and later GPUs
through descriptors, which fill with zeros beyond an edge and store nothing there.

GELU is the exact one, z * cdf(z). The normal distribution's cdf is a polynomial times exp(-z^2 / 2), off by 7.5e-8 at
most (Abramowitz and Stegun, 26.2.17): the library's error function takes as long as a third of the product.
"""

from typing import Any, Final, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

from trueloop.kernels.triton_here import launching_on

__all__ = ["LAYOUTS", "Layout", "matmul", "matmul_gelu", "matmul_gelu_backward"]

DENSITY_AT_0 = tl.constexpr(0.3989422804014327)  # 1 / sqrt(2 pi)
MINUS_HALF_LOG2_E = tl.constexpr(-0.7213475204444817)  # the hardware has an exponential of base 2


class Layout(NamedTuple):
    """How a product is cut: a program's tile [m, n], `k` of the inner dimension at once, `group` rows of tiles that
    share columns of `b` in the cache."""

    m: int
    n: int
    k: int
    group: int
    warps: int
    stages: int
    per_processor: int = 1
    """Programs that share a multiprocessor: one works at the end of its tile while the other multiplies."""


LAYOUTS: Final = {
    "wide": Layout(128, 256, 64, 8, 8, 3),
    "wide4": Layout(128, 256, 64, 8, 8, 4),
    "tall": Layout(256, 128, 64, 8, 8, 3),
    "square": Layout(128, 128, 64, 8, 4, 4),
    "square8": Layout(128, 128, 64, 8, 8, 4),
    "deep": Layout(128, 128, 128, 8, 8, 3),
    "pair": Layout(128, 128, 64, 8, 4, 3, 2),
    "pair8": Layout(128, 128, 64, 8, 8, 3, 2),
    "pair2": Layout(128, 128, 64, 8, 8, 2, 2),
    "small": Layout(64, 64, 64, 8, 4, 4, 3),
}
"""By `benchmarks/kernels.py --layouts` on an H200."""
CHOSEN: Final = {"none": "wide", "gelu": "pair8", "gelu, kept": "pair8", "gelu backward": "wide"}
"""By what happens at the end of a tile: a longer end gains from two programs side by side..."""
LONG: Final = 2048  # ...unless the inner dimension is so long that the end hardly counts
SMALL: Final = "small"  # where a large tile would leave multiprocessors without one


def matmul(a: Tensor, b: Tensor, layout: str | None = None) -> Tensor:
    c = _empty(a, b)
    _launch(a, b, c, c, c, "none", layout)
    return c


def matmul_gelu(a: Tensor, b: Tensor, bias: Tensor, keep: bool, layout: str | None = None) -> tuple[Tensor, Tensor]:
    c = _empty(a, b)
    before = torch.empty_like(c) if keep else c
    _launch(a, b, c, bias.contiguous(), before, "gelu, kept" if keep else "gelu", layout)
    return c, before if keep else c.new_empty(0)


def matmul_gelu_backward(a: Tensor, b: Tensor, before: Tensor, layout: str | None = None) -> Tensor:
    c = _empty(a, b)
    _launch(a, b, c, c, before.contiguous(), "gelu backward", layout)
    return c


def _empty(a: Tensor, b: Tensor) -> Tensor:
    return torch.empty((a.shape[0], b.shape[1]), dtype=a.dtype, device=a.device)


def _launch(a: Tensor, b: Tensor, c: Tensor, bias: Tensor, before: Tensor, end: str, name: str | None) -> None:
    (rows, inner), columns = a.shape, b.shape[1]
    usual = "wide" if inner >= LONG else CHOSEN[end]
    chosen = LAYOUTS[name or (usual if rows * columns >= 1 << 20 else SMALL)]
    tiles = triton.cdiv(rows, chosen.m) * triton.cdiv(columns, chosen.n)
    half = chosen.m, chosen.n // 2
    a_flat, b_flat = a.stride(1) == 1, b.stride(1) == 1  # else they are stored as their transpose
    with launching_on(a):
        _tiles[(min(tiles, _processors(a) * chosen.per_processor),)](
            _described(a if a_flat else a.t(), (chosen.m, chosen.k) if a_flat else (chosen.k, chosen.m)),
            _described(b if b_flat else b.t(), (chosen.k, chosen.n) if b_flat else (chosen.n, chosen.k)),
            _described(c, half), bias, _described(before, half), rows, columns, inner,
            A_FLAT=a_flat, B_FLAT=b_flat, END=end, M=chosen.m, N=chosen.n, K=chosen.k, GROUP=chosen.group,
            num_warps=chosen.warps, num_stages=chosen.stages,
        )  # fmt: skip


def _described(matrix: Tensor, block: tuple[int, int]) -> Any:
    if matrix.data_ptr() % 16:  # the copy engine cannot begin there
        matrix = matrix.clone()
    return TensorDescriptor(matrix, list(matrix.shape), list(matrix.stride()), list(block))


def _processors(tensor: Tensor) -> int:
    return torch.cuda.get_device_properties(tensor.device).multi_processor_count if tensor.is_cuda else 3


@triton.jit  # type: ignore[untyped-decorator]
def _tiles(  # type: ignore[no-untyped-def]
    a, b, c, bias, before, rows, columns, inner, A_FLAT: tl.constexpr, B_FLAT: tl.constexpr,  # noqa: N803
    END: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, GROUP: tl.constexpr,  # noqa: N803
):  # fmt: skip
    down, across = tl.cdiv(rows, M), tl.cdiv(columns, N)
    for tile in tl.range(tl.program_id(0), down * across, tl.num_programs(0), flatten=True):
        # Tiles at work together form a compact block, so that what one has loaded another finds in the L2 cache.
        first = tile // (GROUP * across) * GROUP
        height = tl.minimum(down - first, GROUP)
        row = (first + tile % (GROUP * across) % height) * M
        column = (tile % (GROUP * across) // height) * N
        total = tl.zeros([M, N], dtype=tl.float32)
        for step in range(tl.cdiv(inner, K)):
            left = a.load([row, step * K]) if A_FLAT else a.load([step * K, row]).T
            right = b.load([step * K, column]) if B_FLAT else b.load([column, step * K]).T
            total = tl.dot(left, right, total)
        # In two halves, so that the room for what is stored leaves another stage of loads.
        one, other = tl.split(tl.permute(tl.reshape(total, (M, 2, N // 2)), (0, 2, 1)))
        _store(one, c, bias, before, row, column, columns, END, N // 2)
        _store(other, c, bias, before, row, column + N // 2, columns, END, N // 2)


@triton.jit  # type: ignore[untyped-decorator]
def _store(  # type: ignore[no-untyped-def]
    total, c, bias, before, row, column, columns, END: tl.constexpr, WIDTH: tl.constexpr  # noqa: N803
):  # fmt: skip
    if END == "gelu" or END == "gelu, kept":
        at = column + tl.arange(0, WIDTH)
        total += tl.load(bias + at, mask=at < columns, other=0.0).to(tl.float32)[None, :]
        if END == "gelu, kept":
            before.store([row, column], total.to(before.dtype))
        share, _ = _normal(total)
        total *= share
    if END == "gelu backward":
        z = before.load([row, column]).to(tl.float32)
        share, density = _normal(z)
        total *= share + z * density
    c.store([row, column], total.to(c.dtype))


@triton.jit
def _normal(z):  # type: ignore[no-untyped-def]
    """The normal distribution's cdf and density at z."""
    density = DENSITY_AT_0 * tl.exp2(z * z * MINUS_HALF_LOG2_E)
    t = 1.0 / (1.0 + 0.2316419 * tl.abs(z))
    tail = density * t * (
        0.319381530 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429)))
    )  # fmt: skip
    return tl.where(z < 0.0, tail, 1.0 - tail), density
