"""sum-of-a-million: What is a million times 0.1 in float32, float16 and bfloat16?

It should be 100,000. A float has a fixed number of significant bits: 24 in float32, 11 in float16, 8 in bfloat16. As a
running sum grows, so does the distance between neighboring floats; once it is more than twice what is added, nothing
is added any more, without a warning.

You will learn why sums are accumulated in float32, what `torch.sum` does about it, and which dtype overflows.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from trueloop.labs.lab import Lab, Page
from trueloop.results.document import Axis, Plot, Series

__all__ = ["LAB"]

COUNT = 1_000_000
KINDS = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


def running_sum(value: Tensor, count: int) -> dict[int, float]:
    """Add one value again and again. Terms so far -> the sum, at some points; it ends when nothing changes."""
    total, seen, before = torch.zeros_like(value), dict[int, float](), 0.0
    for terms in range(1, count + 1):
        total.add_(value)
        if terms % 100 == 0 or terms == count:
            seen[terms] = total.item()
            if seen[terms] == before:
                break
            before = seen[terms]
    return seen


@dataclass(frozen=True)
class Sums:
    one_after_another: float
    torch_sum: float
    in_float32: float
    mean: float
    way: tuple[tuple[float, float], ...]  # terms, sum so far

    def off(self, total: float) -> float:
        return abs(total / (COUNT / 10) - 1)


def measure() -> dict[str, Sums]:
    found: dict[str, Sums] = {}
    for name, dtype in KINDS.items():
        value = torch.tensor(0.1, dtype=dtype)
        values, sums = value.repeat(COUNT), running_sum(value, COUNT)
        points = [(float(terms), total) for terms, total in sums.items()]
        way = (*points[:: max(1, len(points) // 60)], (float(COUNT), points[-1][1]))
        single = values.sum(dtype=torch.float32).item()
        found[name] = Sums(points[-1][1], values.sum().item(), single, values.mean().item(), way)
    return found


def answer(page: Page, measured: dict[str, Sums]) -> None:
    columns = ("dtype", "one after another", "torch.sum", "torch.sum in float32", "torch.mean")
    rows = [
        (name, *(f"{value:,.6g}" for value in (each.one_after_another, each.torch_sum, each.in_float32, each.mean)))
        for name, each in measured.items()
    ]
    page.table("A million times 0.1", columns, rows)
    series = tuple(Series(name, each.way, color=at) for at, (name, each) in enumerate(measured.items()))
    page.show(Plot("The running sum", series, Axis("terms", "log"), Axis("sum", "log")))
    single, half, brain = (measured[name] for name in KINDS)
    wrong = single.off(single.one_after_another)
    page.says(f"Even float32 is off by {wrong:.1%} if terms are added one after another.", wrong > 0.005)
    near = single.off(single.torch_sum) < 1e-4
    page.says("`torch.sum` adds parts and then their sums, and is right to 4 digits or more.", near)
    stuck = half.one_after_another == 256 and brain.one_after_another == 32
    page.says("In float16 the running sum stops at 256, in bfloat16 at 32.", stuck)
    over = half.torch_sum == torch.inf
    page.says("`torch.sum` of float16 is inf: 100,000 is above its largest number, 65,504.", over)
    kept = half.off(half.in_float32) < 1e-3 and abs(half.mean - 0.1) < 1e-3
    page.says("Inside, torch accumulates 16-bit numbers in float32: only the result must fit.", kept)
    off = brain.off(brain.torch_sum)
    page.says(f"bfloat16 has the range of float32 and 8 bits: its sum is off by {off:.1%}.", 0 < off < 0.01)


LAB = Lab(code=(running_sum,), measure=measure, answer=answer)
