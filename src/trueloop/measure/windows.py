"""Windows of a series: does the target of a window begin with the last number of the window itself?"""

from collections.abc import Iterator
from typing import Final

import torch
from torch import Tensor

__all__ = ["overlaps", "window_with_target"]

SHORTEST: Final = 4  # numbers along time
CHANNELS: Final = 32
STRETCH: Final = 4  # equal numbers in a row that two windows share
MOST_ROWS: Final = 128
VARIED: Final = 0.5  # distinct targets, of all


def window_with_target(inputs: Tensor, targets: Tensor) -> Tensor | None:
    """The series [rows, time] of the inputs that ends in the first number of each target; None for long targets."""
    rows = len(targets)
    if targets.numel() > inputs.numel() / 2 or len(inputs) != rows or not rows:
        return None
    first = targets.reshape(rows, -1)[:, 0].to(inputs.dtype)
    if len(torch.unique(first)) < VARIED * rows:
        return None
    long = (series for series in _series(inputs) if series.shape[1] > SHORTEST)  # not the channels of one moment
    return next((series for series in long if bool((series[:, -1] == first).all())), None)


def _series(inputs: Tensor) -> Iterator[Tensor]:
    """Every reading of the inputs as [rows, time]."""
    if inputs.ndim == 2:
        yield inputs
    elif inputs.ndim == 3:
        yield from (inputs[:, :, c] for c in range(min(CHANNELS, inputs.shape[2])))
        yield from (inputs[:, c] for c in range(min(CHANNELS, inputs.shape[1])))


def overlaps(series: Tensor) -> int:
    """How many pairs of rows share a stretch of numbers at different positions: the end of one is inside another."""
    series = series[:MOST_ROWS]
    length = series.shape[1]
    if length <= SHORTEST:
        return 0
    inside = series[None, :, : length - 1] == series[:, -1][:, None, None]  # [row, other, position]
    found = 0
    for row, other, position in inside.nonzero().tolist():
        if row == other or position < STRETCH - 1:
            continue
        end = series[row, length - STRETCH :]
        same = torch.equal(end, series[other, position - STRETCH + 1 : position + 1])
        found += same and len(torch.unique(end)) > 1
    return found
