"""Two columns of the targets that change places in a part of the training rows, and in no evaluated row."""

from typing import Final, NamedTuple

import torch
from torch import Tensor

from trueloop.measure.correlation import correlation

__all__ = ["Exchanged", "exchanged"]

ROWS: Final = 100  # in each phase
ORDERED: Final = 0.95  # of the evaluated rows have the smaller value in one and the same column
MIXED: Final = (0.25, 0.75)  # of the training rows have it there
COLLAPSED: Final = 0.6  # of the targets' difference: the model predicts no more
LEARNED: Final = 0.7  # correlation of outputs and targets
LEAST_LEARNED: Final = 0.25  # share of the columns
SAME_MEAN: Final = 0.35  # standard deviations, of both columns together in the two phases
SAME_SPREAD: Final = 1.4  # times


class Exchanged(NamedTuple):
    """`low` is below `high` in the evaluated rows, and in about half of the training rows it is not."""

    low: int
    high: int
    evaluated: float  # share of the evaluated rows that have this order
    trained: float
    difference: float  # of the evaluated targets: median distance of the two
    predicted: float  # the same of the outputs for these rows


def exchanged(trained: tuple[Tensor, Tensor] | None, evaluated: tuple[Tensor, Tensor] | None) -> list[Exchanged] | None:
    """`trained`, `evaluated`: outputs and targets of rows. None: they cannot be compared.

    An order of two columns that breaks in training alone proves nothing: flipped pictures of cars that all face left
    have it too, and are right. There the picture tells which end is which. Where it cannot tell, the model predicts the
    middle for both columns, though it has learned others.
    """
    if trained is None or evaluated is None:
        return None
    targets, (outputs, truth) = trained[1], evaluated
    width = truth.shape[1]
    if min(len(targets), len(truth)) < ROWS or width < 2 or targets.shape[1] != width or outputs.shape[1] != width:
        return None
    if not all(bool(t.isfinite().all()) for t in (targets, outputs, truth)):
        return None
    columns = [column for column in range(width) if len(torch.unique(truth[:, column])) > ROWS // 4]  # amounts
    learned = [column for column in columns if correlation(outputs[:, column], truth[:, column]) >= LEARNED]
    if len(columns) < 2 or len(learned) < max(1, LEAST_LEARNED * len(columns)):
        return None
    found = [_pair(low, high, targets, outputs, truth) for low in columns for high in columns if low != high]
    return [pair for pair in found if pair is not None]


def _pair(low: int, high: int, targets: Tensor, outputs: Tensor, truth: Tensor) -> Exchanged | None:
    ordered = (truth[:, low] < truth[:, high]).double().mean().item()
    if ordered < ORDERED:
        return None
    in_training = (targets[:, low] < targets[:, high]).double().mean().item()
    if not MIXED[0] <= in_training <= MIXED[1] or not _one_scale(targets[:, [low, high]], truth[:, [low, high]]):
        return None
    difference = (truth[:, high] - truth[:, low]).abs().median().item()
    predicted = (outputs[:, high] - outputs[:, low]).abs().median().item()
    return Exchanged(low, high, ordered, in_training, difference, predicted) \
        if predicted <= COLLAPSED * difference else None  # fmt: skip


def _one_scale(trained: Tensor, evaluated: Tensor) -> bool:
    """Both columns together have the same mean and spread: neither units nor a shift of the data explain the order."""
    spread, other = trained.std().item(), evaluated.std().item()
    apart = abs(trained.mean().item() - evaluated.mean().item())
    return spread > 0 and apart <= SAME_MEAN * spread and 1 / SAME_SPREAD <= other / spread <= SAME_SPREAD
