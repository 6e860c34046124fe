"""The smallest input that still breaks a claim: sizes first, then simpler values."""

from collections.abc import Callable
from typing import Any, Final

import torch
from torch import Tensor

from trueloop.op_claims.sample import Sample, resized

__all__ = ["shrink"]

TRIES: Final = 60


def shrink(sample: Sample, breaks: Callable[[Sample], Any]) -> Sample:
    """`breaks` returns something for a sample that breaks the claim. Sizes that the operation does not take raise, and
    do not count."""
    tries = [TRIES]

    def still(candidate: Sample) -> bool:
        tries[0] -= 1
        return tries[0] >= 0 and bool(breaks(candidate))

    smaller: Sample | None = sample
    while smaller is not None:
        sample = smaller
        smaller = next((each for each in _smaller(sample) if still(each)), None)
    return next((each for each in _simpler(sample) if still(each)), sample)


def _smaller(sample: Sample) -> list[Sample]:
    sizes = sorted({size for tensor in sample.tensors() for size in tensor.shape if size > 1}, reverse=True)
    pairs = [(size, to) for size in sizes for to in dict.fromkeys((1, 2, size // 2, size - 1)) if to < size]
    return [resized(sample, size, to) for size, to in pairs]


def _simpler(sample: Sample) -> list[Sample]:
    changes: list[Callable[[Tensor], Tensor]] = [torch.ones_like, torch.round, lambda tensor: (tensor * 8).round() / 8]
    return [
        sample.map(lambda tensor, change=change: change(tensor) if tensor.is_floating_point() else tensor)  # type: ignore[misc]
        for change in changes
    ]
