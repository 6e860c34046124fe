"""triton-matmul: Why does a matrix product number its tiles in groups?

Each tile of the result needs a band of rows of `a` and a band of columns of `b`. Many tiles are computed at the same
time, and what one has loaded, another finds in the cache. Tiles in one long row share one band of `a`, but need a band
of `b` each; tiles in a compact block share both. On a GPU the lab times our Triton product beside cuBLAS.
"""

from typing import Any

import torch
from torch import Tensor

from trueloop.kernels import matmul
from trueloop.labs.lab import Lab, Page
from trueloop.labs.on_gpu import gpu_medians

__all__ = ["LAB"]

DOWN, ACROSS, TOGETHER, GROUP = 32, 32, 128, 8
"""Tiles of the result, tiles computed at the same time, rows of tiles in a group."""


def row_by_row(number: int) -> tuple[int, int]:
    return number // ACROSS, number % ACROSS


def in_groups(number: int) -> tuple[int, int]:
    first = number // (GROUP * ACROSS) * GROUP
    inside = number % (GROUP * ACROSS)
    return first + inside % GROUP, inside // GROUP


def bands_loaded(order: Any) -> int:
    """Bands of `a` and `b` that each wave of tiles needs, added up."""
    loaded = 0
    for start in range(0, DOWN * ACROSS, TOGETHER):
        tiles = [order(number) for number in range(start, start + TOGETHER)]
        loaded += len({row for row, _ in tiles}) + len({column for _, column in tiles})
    return loaded


def tiled(a: Tensor, b: Tensor, size: int = 16) -> Tensor:
    c = torch.empty(a.shape[0], b.shape[1])
    for row in range(0, a.shape[0], size):
        for column in range(0, b.shape[1], size):
            total = torch.zeros(size, size)
            for inner in range(0, a.shape[1], size):
                total += a[row : row + size, inner : inner + size] @ b[inner : inner + size, column : column + size]
            c[row : row + size, column : column + size] = total
    return c


def measure() -> dict[str, Any]:
    a, b = torch.randn(64, 96), torch.randn(96, 48)
    times: dict[str, float] = {}
    if torch.cuda.is_available():
        left, right = (torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16) for _ in range(2))
        times = gpu_medians({"ours": lambda: matmul.matmul(left, right.t()), "cuBLAS": lambda: left @ right.t()})
    return {
        "error": ((tiled(a, b) - a @ b).norm() / (a @ b).norm()).item(),
        "every_tile_once": len({in_groups(number) for number in range(DOWN * ACROSS)}) == DOWN * ACROSS,
        "bands": {"row by row": bands_loaded(row_by_row), "in groups": bands_loaded(in_groups)},
        "milliseconds": times,
    }


def answer(page: Page, measured: dict[str, Any]) -> None:
    bands = measured["bands"]
    page.table(f"{DOWN} x {ACROSS} tiles, {TOGETHER} at a time", ("order", "bands loaded"), list(bands.items()))
    page.says("A product in tiles is the product, to rounding.", measured["error"] < 1e-5)
    page.says("Both orders compute each tile once.", measured["every_tile_once"])
    less = bands["in groups"] / bands["row by row"]
    page.says(f"In groups of {GROUP} rows the same tiles need {less:.0%} of the loads.", less < 0.75)
    times = measured["milliseconds"]
    if times:
        rows = [(name, time, 2 * 4096**3 / time / 1e9) for name, time in times.items()]
        page.table("4,096 x 4,096 x 4,096 in bf16 on this GPU", ("", "ms", "TFLOP/s"), rows)
        page.says("Our product has at least 75 % of cuBLAS's speed.", times["cuBLAS"] >= 0.75 * times["ours"])


LAB = Lab(code=(row_by_row, in_groups, bands_loaded, tiled), measure=measure, answer=answer)
