"""view-or-copy: Which operations copy a tensor, and which look at the same memory differently?

A tensor is a storage (one flat piece of memory) and a way to read it: shape, strides, offset. Many operations
change only the way to read. They take no time, whatever the size, and a write through one of them is seen by all
others.

You will learn to tell both kinds apart by asking the storage, not by their names: `reshape` is a view on one tensor
and a copy on another.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from trueloop.labs.interleaved import interleaved
from trueloop.labs.lab import Lab, Page

__all__ = ["LAB"]

OPERATIONS = {
    "x.view(4, 6)": lambda x: x.view(4, 6),
    "x.t()": lambda x: x.t(),
    "x[1:3]": lambda x: x[1:3],
    "x[:, ::2]": lambda x: x[:, ::2],
    "x.expand(2, 6, 4)": lambda x: x.expand(2, 6, 4),
    "x.reshape(24)": lambda x: x.reshape(24),
    "x.t().reshape(24)": lambda x: x.t().reshape(24),
    "x.contiguous()": lambda x: x.contiguous(),
    "x.t().contiguous()": lambda x: x.t().contiguous(),
    "x[[1, 2]]": lambda x: x[[1, 2]],
    "x[x > 0]": lambda x: x[x > 0],
    "x.to(torch.float32)": lambda x: x.to(torch.float32),
    "x.to(torch.float64)": lambda x: x.to(torch.float64),
    "x.clone()": lambda x: x.clone(),
}


def same_memory(one: Tensor, other: Tensor) -> bool:
    """Do both read the same storage? Two views of it may begin at different elements."""
    return one.untyped_storage().data_ptr() == other.untyped_storage().data_ptr()


def write_through(x: Tensor) -> float:
    """Write into a view of x, then read x."""
    x.t()[0, 0] = 7.0
    return x[0, 0].item()


@dataclass(frozen=True)
class Measured:
    shares: dict[str, bool]
    seen_through_view: float
    seconds: dict[str, float]


def measure() -> Measured:
    x = torch.arange(24.0).view(6, 4)
    large = torch.zeros(1000, 2000)
    return Measured(
        {text: same_memory(x, operation(x)) for text, operation in OPERATIONS.items()},
        write_through(torch.zeros(2, 2)),
        interleaved({"x.t()": large.t, "x.t().contiguous()": lambda: large.t().contiguous()}),
    )


def answer(page: Page, measured: Measured) -> None:
    shares, seconds = measured.shares, measured.seconds
    rows = [(text, "view: no copy" if shared else "copy: new memory") for text, shared in shares.items()]
    page.table("x is torch.arange(24.).view(6, 4)", ("expression", "measured"), rows)
    times = [(text, value * 1e6) for text, value in seconds.items()]
    page.table("The same on 1000 x 2000 numbers (8 MB)", ("expression", "microseconds"), times)
    views = ("x.view(4, 6)", "x.t()", "x[1:3]", "x[:, ::2]", "x.expand(2, 6, 4)")
    page.says("Transposes, slices (with steps, too) and `expand` are views.", all(shares[each] for each in views))
    page.says("An index with a list or a mask copies.", not (shares["x[[1, 2]]"] or shares["x[x > 0]"]))
    both = shares["x.reshape(24)"] and not shares["x.t().reshape(24)"]
    page.says("`reshape` is a view where strides allow it, and a silent copy where they do not.", both)
    lazy = shares["x.contiguous()"] and shares["x.to(torch.float32)"]
    lazy = lazy and not (shares["x.t().contiguous()"] or shares["x.to(torch.float64)"])
    page.says("`contiguous()` and `to(...)` return the tensor itself if there is nothing to do, else a copy.", lazy)
    page.says("A write through a view is seen in the base.", measured.seen_through_view == 7.0)
    ratio = seconds["x.t().contiguous()"] / seconds["x.t()"]
    page.says(f"A transpose costs no copy: making it contiguous took {ratio:,.0f} times as long.", ratio > 20)


LAB = Lab(code=(same_memory, write_through), measure=measure, answer=answer)
