"""How much a symbol tells about the one some places further on in a sequence: text says most about its neighbor."""

from typing import Final

import torch
from torch import Tensor

__all__ = ["dependence"]

KINDS: Final = 48  # the most frequent symbols; the others count as one
MOST: Final = 100_000  # places


def dependence(symbols: Tensor, lag: int) -> float:
    """Mutual information of two places in bits, less that of the same symbols in a random order."""
    symbols = symbols[: MOST + lag].reshape(-1)
    if len(symbols) <= 2 * lag:
        return 0.0
    _, codes, counts = torch.unique(symbols, return_inverse=True, return_counts=True)
    rank = torch.full_like(counts, KINDS)
    frequent = counts.argsort(descending=True)[:KINDS]
    rank[frequent] = torch.arange(len(frequent))
    kinds = rank[codes]
    first, second = kinds[:-lag], kinds[lag:]
    # Half of the sequence away nothing is related: a baseline without a random number.
    unrelated = second.roll(len(second) // 2)
    return _information(first, second) - _information(first, unrelated)


def _information(one: Tensor, other: Tensor) -> float:
    joint = torch.bincount(one * (KINDS + 1) + other, minlength=(KINDS + 1) ** 2).double() / len(one)
    joint = joint.view(KINDS + 1, KINDS + 1)
    expected = joint.sum(1, keepdim=True) * joint.sum(0, keepdim=True)
    seen = joint > 0
    return float((joint[seen] * (joint[seen] / expected[seen]).log2()).sum())
