"""The middle of a fused linear + cross entropy, as one Triton kernel: `softmax_gradient` says what it computes.

One program per row. What it costs is memory traffic: a row of 50,304 scores in bf16 is 100 KB, to be read once and
written once. It is read in blocks for its log-sum-exp, and once more, from the cache, to be overwritten: the rows that
are at work on the 132 multiprocessors of a Hopper are 26 MB, half of its cache. (To hold a whole row in registers
instead was slower by half there.)

Imported only where there is a CUDA device: this needs Triton.
"""

from typing import Final, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

__all__ = ["CONFIGURATIONS", "softmax_gradient"]

LOG2_E = tl.constexpr(1.4426950408889634)  # The hardware has an exponential of base 2: scores are brought to it by this
LOWEST = tl.constexpr(-1e30)  # where a largest score begins; minus infinity less itself would be NaN
LN_2 = tl.constexpr(0.6931471805599453)  # And the log-sum-exp is brought back by this


class Configuration(NamedTuple):
    """How the work on a row is laid out."""

    block: int  # Columns at once
    warps: int


CONFIGURATIONS: Final[dict[str, Configuration]] = {"stream": Configuration(8192, 16), "narrow": Configuration(4096, 8)}


def softmax_gradient(scores: Tensor, targets: Tensor, losses: Tensor, ignore: int, *, write: bool, kernel: str) -> None:
    """`scores` [N, V]: rows a multiple of 16 bytes apart, with room for that many columns in the last row too."""
    rows, classes = scores.shape
    block, warps = CONFIGURATIONS[kernel]
    width = scores.stride(0)
    block = min(block, max(1024, triton.next_power_of_2(width)))
    with torch.cuda.device(scores.device):
        _streamed[(rows,)](scores, targets, losses, classes, width, ignore, WRITE=write, BLOCK=block, num_warps=warps)


@triton.jit  # type: ignore[untyped-decorator]
def _streamed(  # type: ignore[no-untyped-def]
    scores, targets, losses, classes, width, ignore, WRITE: tl.constexpr, BLOCK: tl.constexpr  # noqa: N803
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    target = tl.load(targets + row)
    counts = target != ignore
    known = (target >= 0) & (target < classes)
    first = scores + row * width
    # Before anything is overwritten; the barriers of the sums below keep every thread behind it.
    of_target = tl.load(first + target, mask=known, other=float("nan")).to(tl.float32)
    # Eight side by side are one thread's: each thread finds its own log-sum-exp, and none waits for another before the
    # end of the row.
    lanes = tl.arange(0, BLOCK // 8)[:, None] * 8 + tl.arange(0, 8)[None, :]
    highest = tl.full([BLOCK // 8], LOWEST, dtype=tl.float32)
    sums = tl.zeros([BLOCK // 8], dtype=tl.float32)
    for start in range(0, width, BLOCK):
        place = start + lanes
        # The mask is the width, a multiple of 16: so it is read 16 bytes at a time whatever the number of classes.
        score = tl.load(first + place, mask=place < width, other=0.0, eviction_policy="evict_last").to(tl.float32)
        score = tl.where(place < classes, score * LOG2_E, float("-inf"))
        higher = tl.maximum(highest, tl.max(score, 1))
        sums = sums * tl.exp2(highest - higher) + tl.sum(tl.exp2(score - higher[:, None]), 1)
        highest = higher
    largest = tl.max(highest, 0)
    total = largest + tl.log2(tl.sum(sums * tl.exp2(highest - largest), 0))
    tl.store(losses + row, tl.where(counts, total * LN_2 - of_target, 0.0))
    if WRITE:
        tl.debug_barrier()
        poison = tl.where(known, 1.0, float("nan"))
        narrow = target.to(tl.int32)
        for start in range(0, width, BLOCK):
            place = start + lanes
            score = tl.load(first + place, mask=place < width, other=0.0, eviction_policy="evict_first").to(tl.float32)
            share = tl.exp2(score * LOG2_E - total)
            gradient = tl.where(place == narrow, share - 1.0, share) * poison
            gradient = tl.where(counts & (place < classes), gradient, 0.0)
            tl.store(first + place, gradient.to(scores.dtype.element_ty), mask=place < width)
