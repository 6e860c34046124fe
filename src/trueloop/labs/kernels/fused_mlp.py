"""fused-mlp: What does it save to compute GELU inside the product before it?

Between the two products of a transformer's MLP lie four numbers for each input. Unfused, they are written by the first
product, read and written by GELU, and read by the second. GELU needs no other number than its own, so it can happen
while the tile is still on the chip. On a GPU the lab times our kernel beside torch.
"""

from typing import Any

import torch

from trueloop.kernels import mlp
from trueloop.labs.lab import Lab, Page
from trueloop.labs.on_gpu import gpu_medians

__all__ = ["LAB"]


def numbers_moved(rows: int, width: int, hidden: int, fused: bool) -> int:
    """Of the forward: each tensor once for each time that it is read or written."""
    weights = 2 * width * hidden
    outside = 2 * rows * width  # the input, the result
    between = rows * hidden * (2 if fused else 4)  # written, read; and once more by GELU
    return weights + outside + between


def operations(rows: int, width: int, hidden: int) -> int:
    return 4 * rows * width * hidden


def seconds(moved: int, computed: int, bandwidth: float, speed: float) -> tuple[float, float]:
    """Bytes of two for a number: time of the memory, time of the arithmetic."""
    return 2 * moved / bandwidth, computed / speed


def measure() -> dict[str, Any]:
    rows, width, hidden = 16384, 768, 3072
    moved = {name: numbers_moved(rows, width, hidden, fused) for name, fused in (("unfused", False), ("fused", True))}
    # An H200: 4.2 TB/s of a copy, 700 TFLOP/s of a product this narrow.
    memory, arithmetic = seconds(moved["unfused"] - moved["fused"], operations(rows, width, hidden), 4.2e12, 7e14)
    times: dict[str, float] = {}
    error = 0.0
    if torch.cuda.is_available():
        shapes = (rows, width), (hidden, width), (hidden,), (width, hidden), (width,)
        inputs = [torch.randn(shape, device="cuda", dtype=torch.bfloat16) * 0.05 for shape in shapes]
        times = gpu_medians({"ours": lambda: mlp.mlp(*inputs), "torch": lambda: mlp.reference(*inputs)})
        wanted = mlp.reference(*(each.float() for each in inputs))
        error = float((mlp.mlp(*inputs).float() - wanted).norm() / wanted.norm())
    return {"moved": moved, "saved": memory / arithmetic, "milliseconds": times, "error": error}


def answer(page: Page, measured: dict[str, Any]) -> None:
    moved = measured["moved"]
    rows = [(name, count / 1e6) for name, count in moved.items()]
    page.table("16,384 rows of 768, 3,072 between", ("", "million numbers moved"), rows)
    less = moved["fused"] / moved["unfused"]
    page.says(f"Fused, {less:.0%} of the numbers are moved.", 0.5 < less < 0.7)
    page.says(
        f"By the speeds of an H200 that saves the time of {measured['saved']:.0%} of the arithmetic at most.",
        0.15 < measured["saved"] < 0.35,
    )
    times = measured["milliseconds"]
    if times:
        page.table("On this GPU, bf16", ("", "ms"), list(times.items()))
        page.says("Our kernel is as exact as bf16 allows.", measured["error"] < 1e-2)
        page.says("It is not slower than torch by more than a tenth.", times["ours"] < 1.1 * times["torch"])


LAB = Lab(code=(numbers_moved, seconds), measure=measure, answer=answer)
