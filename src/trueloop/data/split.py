"""Train, validation and test indices: drawn once from a seed, stratified where there are classes."""

import torch
from torch import Tensor

__all__ = ["split_numbers"]


def split_numbers(
    count: int, seed: int, labels: Tensor | None = None, *, valid: float = 0.15, test: float = 0.15
) -> tuple[Tensor, Tensor, Tensor]:
    """Indices of train, validation and test. With labels, every class of three samples or more is in each split."""
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
    groups = [order]
    if labels is not None:
        by_class = order[torch.argsort(labels[order], stable=True)]
        groups = list(torch.split(by_class, torch.unique(labels, return_counts=True)[1].tolist()))
    parts: tuple[list[Tensor], list[Tensor], list[Tensor]] = ([], [], [])
    for group in groups:
        validating, testing = _held_out(len(group), valid, test)
        sizes = [len(group) - validating - testing, validating, testing]
        for part, indices in zip(parts, torch.split(group, sizes), strict=True):
            part.append(indices)
    train, validation, tested = (torch.cat(part).sort().values for part in parts)
    return train, validation, tested


def _held_out(count: int, valid: float, test: float) -> tuple[int, int]:
    """Sizes of validation and test in a group: at least one each, as long as one sample is left for training."""
    validating = max(1, round(count * valid)) if valid and count >= 2 else 0
    testing = max(1, round(count * test)) if test and count >= validating + 2 else 0
    return validating, testing
