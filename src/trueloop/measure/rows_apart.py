"""Differences between evaluated and training rows: in their numbers, or in how these follow one another."""

from typing import Final

import torch
from torch import Tensor

from trueloop.event import RowsApart
from trueloop.measure.probe import neighbors, ridge, standardized

__all__ = ["rows_apart"]

LEAST_ROWS: Final = 60
MOST_ROWS: Final = 400
WIDEST: Final = 192  # numbers of a row
SERIES: Final = 16  # numbers in a row that have a spectrum
BINS: Final = 48


@torch.no_grad()
def rows_apart(trained: Tensor, evaluated: Tensor) -> RowsApart | None:
    """By the view in which a probe (nearest neighbors or ridge regression), cross-validated in two halves, tells them
    apart best; None: too few rows."""
    if min(len(trained), len(evaluated)) < LEAST_ROWS or trained.shape[1:] != evaluated.shape[1:]:
        return None
    if not trained.is_floating_point() or not evaluated.is_floating_point():
        return None
    sides = [rows[:: -(-len(rows) // MOST_ROWS)].double() for rows in (trained, evaluated)]
    if not all(bool(rows.isfinite().all()) for rows in sides):
        return None
    found = [_difference("values", *(_values(rows) for rows in sides))]
    if trained.ndim > 2:
        found.append(_difference("profile", *(_profile(rows) for rows in sides)))
    if trained.shape[-1] >= SERIES:
        found.append(_difference("spectrum", *(_spectrum(rows) for rows in sides)))
    return max(found, key=lambda one: one.area)


def _values(rows: Tensor) -> Tensor:
    flat = rows.flatten(1)
    return flat[:, :: -(-flat.shape[1] // WIDEST)]


def _profile(rows: Tensor) -> Tensor:
    """Means along each dimension in turn: of channels, of times, of lines."""
    others = [[d for d in range(1, rows.ndim) if d != kept] for kept in range(1, rows.ndim)]
    return _values(torch.cat([rows.mean(dims) for dims in others], 1))


def _spectrum(rows: Tensor) -> Tensor:
    """Share of the variation that each band of frequencies along the last dimension has, in logarithms."""
    series = rows.reshape(len(rows), -1, rows.shape[-1])
    power = torch.fft.rfft(series - series.mean(2, keepdim=True)).abs().square()[:, :, 1:].mean(1)
    bands = torch.nn.functional.adaptive_avg_pool1d(power.unsqueeze(1), min(BINS, power.shape[1]))[:, 0]
    return (bands / bands.sum(1, keepdim=True).clamp_min(1e-12) + 1e-6).log()


def _difference(view: str, one: Tensor, other: Tensor) -> RowsApart:
    joined = torch.cat([one, other])
    scaled = standardized(joined, joined)
    answers = torch.cat([one.new_full((len(one), 1), -1.0), one.new_full((len(other), 1), 1.0)])
    half = torch.arange(len(joined)) % 2 == 0
    areas = []
    for predict in (ridge, neighbors):
        scores = torch.zeros(len(joined), dtype=torch.double)
        for side in (half, ~half):
            scores[~side] = predict(scaled[side], answers[side], scaled[~side])[:, 0]
        areas.append(min(_area(scores[side], answers[side, 0] > 0) for side in (half, ~half)))
    gaps = (one.mean(0) - other.mean(0)).abs() / (one.std(0) + other.std(0)).clamp_min(1e-9)
    most = int(gaps.argmax())
    numbers = (t[:, most].item() for t in (one.mean(0, True), one.std(0, keepdim=True), other.mean(0, True),
                                           other.std(0, keepdim=True)))  # fmt: skip
    return RowsApart(view, max(areas), most, joined.shape[1], *numbers)


def _area(scores: Tensor, positive: Tensor) -> float:
    """Under the ROC curve."""
    ranks = scores.argsort().argsort().double()
    count = int(positive.sum())
    return (ranks[positive].sum().item() - count * (count - 1) / 2) / max(1, count * (len(scores) - count))
