"""cpu-or-gpu: From which size on does a GPU pay, and what does the way there cost?

A GPU has more units than a CPU, and each operation must be launched, which takes microseconds whatever its size. If
the numbers start on the CPU, they also travel there and back. So small work is faster on the CPU.

You will multiply matrices of growing size: on the CPU, on the GPU, and on the GPU with both copies. The size at which
it pays is this machine's.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from trueloop.labs.interleaved import interleaved
from trueloop.labs.lab import Lab, Page
from trueloop.results.document import Axis, Plot, Series

__all__ = ["LAB"]

SIZES = (4, 16, 64, 256, 1024, 4096)
WAYS = ("CPU", "GPU", "GPU with both copies")


def ways(size: int) -> dict[str, Callable[[], Any]]:
    """A product of two matrices, waited for. Without `synchronize` only the launch would be timed."""
    x = torch.randn(size, size)
    there = x.cuda()

    def on_gpu() -> None:
        there @ there
        torch.cuda.synchronize()

    def with_copies() -> Tensor:
        moved = x.cuda()
        return (moved @ moved).cpu()

    return dict(zip(WAYS, (lambda: x @ x, on_gpu, with_copies), strict=True))


def launched_only(size: int) -> Callable[[], Any]:
    there = torch.randn(size, size, device="cuda")
    return lambda: there @ there


@dataclass(frozen=True)
class Measured:
    seconds: dict[int, dict[str, float]]  # size -> way
    launch: float  # of the largest product, not waited for
    name: str


def measure() -> Measured:
    seconds = {size: interleaved(ways(size), rounds=5 if size > 2000 else 21) for size in SIZES}
    launch = interleaved({"launch": launched_only(SIZES[-1])}, rounds=5)["launch"]
    torch.cuda.synchronize()
    return Measured(seconds, launch, torch.cuda.get_device_name())


def answer(page: Page, measured: Measured) -> None:
    seconds = measured.seconds
    rows = [(size, *(found[way] * 1e6 for way in WAYS)) for size, found in seconds.items()]
    page.table(f"Microseconds of a product of n x n matrices, {measured.name}", ("n", *WAYS), rows)
    lines = tuple(
        Series(way, tuple((size, seconds[size][way]) for size in SIZES), number, dots=True)
        for number, way in enumerate(WAYS)
    )
    page.show(Plot("A product of matrices", lines, Axis("n", "log", ticks=SIZES), Axis("", "log", "s")))
    small, large = seconds[SIZES[0]], seconds[SIZES[-1]]
    page.says("The smallest product is faster on the CPU.", small["CPU"] < small["GPU"])
    ratio = large["CPU"] / large["GPU"]
    page.says(f"The largest is {ratio:,.0f} times as fast on the GPU.", ratio > 2)
    pays = {way: next((size for size in SIZES if seconds[size][way] < seconds[size]["CPU"]), 0) for way in WAYS[1:]}
    first, copied = pays["GPU"], pays["GPU with both copies"]
    later = f"from n = {copied}" if copied else "at no size of these"
    page.says(f"On this machine it pays from n = {first}, with both copies {later}.", 0 < first <= (copied or first))
    page.says("Copies there and back cost time: keep data on the device.", large["GPU with both copies"] > large["GPU"])
    flat = seconds[SIZES[2]]["GPU"] < 3 * small["GPU"]
    page.says("Up to n = 64 the GPU takes about the same time: that is the launch.", flat)
    early = measured.launch < large["GPU"] / 2
    page.says("A call returns before the GPU is done: time only after `synchronize`.", early)


LAB = Lab(code=(ways, launched_only), measure=measure, answer=answer, needs="gpu")
