"""strides: How does a tensor find the element [i, j] in flat memory?

Memory has one dimension. A tensor of two or more keeps a stride for each of its dimensions: how many elements to go
forward when that index grows by one. Shape, strides and an offset are all that a view changes.

You will see the same 6 numbers read in six ways, and which strides are possible: 0 (every row is the same memory)
and overlapping ones too.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from trueloop.labs.interleaved import interleaved
from trueloop.labs.lab import Lab, Page
from trueloop.results.document import Code

__all__ = ["LAB"]


def ways_to_read() -> dict[str, Tensor]:
    base = torch.arange(6)
    x = base.view(2, 3)
    return {
        "x": x,
        "x.t()": x.t(),
        "x[:, 1:]": x[:, 1:],
        "x[:, ::2]": x[:, ::2],
        "x[0].expand(2, 3)": x[0].expand(2, 3),
        "base.unfold(0, 3, 1)": base.unfold(0, 3, 1),
    }


def elements_in_memory(x: Tensor) -> int:
    """Different places that a tensor reads: fewer than its elements if some of them are one place."""
    places = {x.storage_offset()}
    for size, stride in zip(x.shape, x.stride(), strict=True):
        places = {place + index * stride for place in places for index in range(size)}
    return len(places)


@dataclass(frozen=True)
class Way:
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int
    contiguous: bool
    elements: int
    places: int


@dataclass(frozen=True)
class Measured:
    ways: dict[str, Way]
    along: float
    across: float


def measure() -> Measured:
    ways = {
        text: Way(
            tuple(x.shape), x.stride(), int(x.storage_offset()), x.is_contiguous(), x.numel(), elements_in_memory(x)
        )
        for text, x in ways_to_read().items()
    }
    large = torch.zeros(2048, 2048)
    times = interleaved({"along": lambda: large[:128].clone(), "across": lambda: large[:, ::16].clone()}, rounds=31)
    return Measured(ways, times["along"], times["across"])


def answer(page: Page, measured: Measured) -> None:
    rows = [
        (text, "x".join(map(str, way.shape)), str(way.stride), way.offset, way.contiguous, way.places)
        for text, way in measured.ways.items()
    ]
    page.table("Six ways to read 6 numbers", ("view", "shape", "strides", "offset", "contiguous", "places"), rows)
    page.show(Code("trueloop inspect tensor 'torch.arange(6).view(2, 3).t()'   # draws the storage", title="Try it"))
    ways = measured.ways
    swapped = ways["x.t()"].stride == ways["x"].stride[::-1]
    page.says("A transpose swaps strides; no element moves.", swapped and not ways["x.t()"].contiguous)
    page.says("A slice moves the offset, a step multiplies a stride.", _sliced(ways))
    page.says("`expand` has stride 0: 6 elements read 3 places.", ways["x[0].expand(2, 3)"].places == 3)
    window = ways["base.unfold(0, 3, 1)"]
    overlap = window.stride == (1, 1) and window.elements == 12 and window.places == 6
    page.says("Sliding windows overlap in memory: 12 elements read 6 places with strides (1, 1).", overlap)
    ratio = measured.across / measured.along
    page.says(f"Strides cost time: a strided copy of as many elements took {ratio:.1f} times as long.", ratio > 1.3)


def _sliced(ways: dict[str, Way]) -> bool:
    moved = ways["x[:, 1:]"].offset == 1 and ways["x[:, 1:]"].stride == ways["x"].stride
    return moved and ways["x[:, ::2]"].stride == (3, 2) and ways["x[:, ::2]"].offset == 0


LAB = Lab(code=(ways_to_read, elements_in_memory), measure=measure, answer=answer)
