"""Which samples are learned from, which validate and which test: drawn once, from a seed, class by class where there
are classes."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["split_numbers"]


def split_numbers(
    count: int, seed: int, labels: Tensor | None = None, *, valid: float = 0.15, test: float = 0.15
) -> tuple[Tensor, Tensor, Tensor]:
    """Sample numbers of train, valid and test. With labels, every class that has three samples or more is in each of
    them."""
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
    if labels is None:
        groups = [order]
    else:
        by_class = order[torch.argsort(labels[order], stable=True)]
        groups = list(torch.split(by_class, torch.unique(labels, return_counts=True)[1].tolist()))
    parts: tuple[list[Tensor], list[Tensor], list[Tensor]] = ([], [], [])
    for group in groups:
        held_out, tested = _held_out(len(group), valid, test)
        for part, numbers in zip(
            parts, torch.split(group, [len(group) - held_out - tested, held_out, tested]), strict=True
        ):
            part.append(numbers)
    train, validating, testing = (torch.cat(part).sort().values for part in parts)
    return train, validating, testing


def _held_out(count: int, valid: float, test: float) -> tuple[int, int]:
    """How many of a group validate and test: at least one each, as long as one is left to learn from."""
    validating = max(1, round(count * valid)) if valid and count >= 2 else 0
    testing = max(1, round(count * test)) if test and count >= validating + 2 else 0
    return validating, testing
