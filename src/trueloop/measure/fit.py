"""One column of predictions beside its targets."""

from typing import Final

from torch import Tensor

from trueloop.event import FittedColumn

__all__ = ["fitted_column"]

AT_AN_END: Final = 0.01  # of the range of the predictions
BEYOND: Final = 0.1  # of that range


def fitted_column(
    index: int, predictions: Tensor, targets: Tensor, first_predictions: Tensor, first_targets: Tensor
) -> FittedColumn:
    low, high = predictions.min().item(), predictions.max().item()
    width = high - low
    ends = (predictions >= high - AT_AN_END * width, predictions <= low + AT_AN_END * width)
    over = (targets > high + BEYOND * width) & ends[0], (targets < low - BEYOND * width) & ends[1]
    pinned = int((ends[0] | ends[1]).sum())
    median = targets.median()
    return FittedColumn(
        index,
        predictions.mean().item(),
        predictions.std(correction=0).item(),
        targets.mean().item(),
        targets.std(correction=0).item(),
        (predictions - targets).abs().mean().item(),
        (targets - median).abs().mean().item(),
        first_predictions.mean().item(),
        first_targets.mean().item(),
        (low, high),
        (targets.min().item(), targets.max().item()),
        pinned / len(predictions),
        int((over[0] | over[1]).sum()) / max(1, pinned),
    )
