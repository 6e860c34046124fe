"""The direction of the risk sets of a partial likelihood, from the gradient of the loss."""

from typing import Final, Literal

import torch
from torch import Tensor

__all__ = ["direction_of", "only_one_sorted"]

DISTINCT: Final = 12  # times, at least
SLACK: Final = 1e-4  # of the range: rounding
LEVELS: Final = 6  # distinct sums, at least


def direction_of(scores: Tensor, gradients: Tensor, event: Tensor, time: Tensor) -> bool | None:
    """True: the sets hold the samples of the same or a later time; False: of an earlier one; None: no such loss.

    With weight w of an event, the gradient of sample i is w * (exp(score) * total - event), where the total adds up
    one over the risk of each set that i is in. Along time, totals grow (True) or fall (False) without exception.
    """
    count = float(event.sum())
    kept = _first_of_each(time)
    if kept.numel() < DISTINCT or count < 4 or bool(((time == 0) | (time == 1)).all()):
        return None
    if abs(float(gradients.sum())) > SLACK * float(gradients.abs().sum()):
        return None  # adding a number to all scores changes no partial likelihood
    order = kept[time[kept].argsort()]
    for weight in (1 / count, 1.0, 1 / len(scores)):
        totals = ((gradients / weight + event) * torch.exp(-scores))[order]
        spread = float(totals.max() - totals.min())
        if not 0 < spread < float("inf") or float(totals.min()) < -SLACK * spread:
            continue
        steps = totals.diff()
        levels = int((steps.abs() > SLACK * spread).sum())
        if levels < LEVELS:
            continue
        if float(steps.min()) >= -SLACK * spread:
            return True
        if float(steps.max()) <= SLACK * spread:
            return False
    return None


def only_one_sorted(
    scores: Tensor, gradients: Tensor, event: Tensor, time: Tensor
) -> tuple[int, Literal["scores", "flags"]] | None:
    """How many samples have the flag of a different one, and what was sorted by time: None if it was both, or neither.

    With sorted scores and unsorted flags, the sample of rank k has the flag of row k. With sorted flags only, row k has
    the flag of the sample of rank k, and the sets follow the rows.
    """
    rows = torch.arange(len(time), dtype=time.dtype)
    for descending in (True, False):
        order = time.argsort(descending=descending, stable=True)
        of_row = torch.empty_like(event)
        of_row[order] = event
        if direction_of(scores, gradients, of_row, time) is not None:
            return int((of_row != event).sum()), "scores"
        if direction_of(scores, gradients, event[order], rows) is not None:
            return int((event[order] != event).sum()), "flags"
    return None


def _first_of_each(time: Tensor) -> Tensor:
    """The samples whose time no other sample has."""
    ordered, index = time.sort()
    apart, edge = ordered.diff() != 0, torch.ones(1, dtype=torch.bool)
    found: Tensor = index[torch.cat([edge, apart]) & torch.cat([apart, edge])]
    return found
