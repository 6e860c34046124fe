"""triton-softmax: How often must a softmax read its row?

The largest value, the sum of exponentials and the shares: three passes, if each is an operation. In blocks with a
running maximum it is two, whatever the width. A kernel that holds the row in registers reads it once, and then memory
is the only limit. On a GPU the lab times our Triton kernel beside torch's softmax.
"""

from typing import Any

import torch
from torch import Tensor

from trueloop.kernels import softmax
from trueloop.labs.lab import Lab, Page
from trueloop.labs.on_gpu import gpu_medians

__all__ = ["LAB"]


def three_passes(row: Tensor) -> tuple[Tensor, int]:
    largest = row.max()  # reads the row
    total = (row - largest).exp().sum()  # reads it again
    return (row - largest).exp() / total, 3 * row.numel()  # and again


def online(row: Tensor, block: int = 64) -> tuple[Tensor, int]:
    largest, total, read = torch.tensor(-torch.inf), torch.tensor(0.0), 0
    for part in row.split(block):
        larger = torch.maximum(largest, part.max())
        total = total * (largest - larger).exp() + (part - larger).exp().sum()  # what was added up is scaled down
        largest, read = larger, read + part.numel()
    return (row - largest).exp() / total, read + row.numel()


def in_registers(row: Tensor) -> tuple[Tensor, int]:
    """What our kernel does: one program loads the row once and keeps it."""
    kept = row.clone()
    power = (kept - kept.max()).exp()
    return power / power.sum(), row.numel()


def measure() -> dict[str, Any]:
    row = torch.randn(1000) * 30
    exact = row.double().softmax(0)
    ways = {"three passes": three_passes, "online, in blocks": online, "row in registers": in_registers}
    found = {name: way(row) for name, way in ways.items()}
    times: dict[str, float] = {}
    speed = 0.0
    if torch.cuda.is_available():
        scores = torch.randn(16384, 4096, device="cuda", dtype=torch.bfloat16)
        times = gpu_medians({"ours": lambda: softmax.softmax(scores), "torch": lambda: scores.softmax(-1)})
        speed = 2 * scores.numel() * 2 / times["ours"] / 1e6
    return {
        "reads": {name: read / row.numel() for name, (_, read) in found.items()},
        "errors": {name: (shares - exact).abs().max().item() for name, (shares, _) in found.items()},
        "naive_overflows": bool((row * 4).exp().isinf().any()),
        "milliseconds": times,
        "gigabytes_per_second": speed,
    }


def answer(page: Page, measured: dict[str, Any]) -> None:
    reads, errors = measured["reads"], measured["errors"]
    page.table(
        "A row of 1,000", ("", "reads of the row", "error"), [(name, reads[name], errors[name]) for name in reads]
    )
    page.says("All three are right: scaling down what was added up is exact to rounding.", max(errors.values()) < 1e-6)
    fewer = reads["three passes"] == 3 and reads["online, in blocks"] == 2 and reads["row in registers"] == 1
    page.says("Online softmax reads a row twice instead of three times, a row in registers once.", fewer)
    page.says("Without taking off the largest value, exp overflows.", measured["naive_overflows"])
    times = measured["milliseconds"]
    if times:
        rows = [(name, time, times["torch"] / time) for name, time in times.items()]
        page.table("16,384 x 4,096 in bf16 on this GPU", ("", "ms", "times as fast as torch"), rows)
        page.says(
            f"Our kernel moves {measured['gigabytes_per_second']:,.0f} GB/s and is not slower than torch's softmax.",
            times["ours"] <= 1.05 * times["torch"],
        )


LAB = Lab(code=(three_passes, online, in_registers), measure=measure, answer=answer)
