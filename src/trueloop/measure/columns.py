"""Columns of a table of rows: distribution, sentinels, and how well one alone gives the target."""

from typing import Any, Final

import torch
from torch import Tensor

from trueloop.event import Column, Repeated
from trueloop.measure.correlation import correlation
from trueloop.measure.tensors import deviation_of, mean_of

__all__ = ["as_table", "column_facts", "is_noise"]

MOST_COLUMNS: Final = 256  # wider inputs (flattened images) are summarized as one column
LEAST_SAME: Final = 3  # rows that have a repeated value
LEAST_SHARE: Final = 0.002  # of the rows that have a repeated value
MOST_SHARE: Final = 0.7
LEAST_ROWS: Final = 64
LEAST_DISTINCT: Final = 8  # other values: fewer are categories
FEW_VALUES: Final = 32  # of a code or a counter
DEFAULT: Final = 0.4  # share of the most frequent value of an amount that is mostly empty
POSITIONS: Final = 64  # of a row that are compared
ERRORS: Final = 5.0  # standard errors


def as_table(rows: Tensor) -> tuple[Tensor, str]:
    """Rows by columns, in double precision where the columns are separate, and what a column is. Time and space are
    pooled."""
    rows = rows.detach()
    if rows.ndim == 2 and rows.shape[1] <= MOST_COLUMNS:
        return rows.double(), "features"
    if rows.ndim == 3 and rows.shape[2] <= 64:
        return rows.double().flatten(0, 1), "features"
    if rows.ndim >= 4 and rows.shape[1] <= 64:
        return rows.double().flatten(2).transpose(1, 2).flatten(0, 1), "channels"
    return rows.reshape(-1, 1), "channels"  # many numbers: not copied in double precision


def column_facts(table: Tensor, targets: Tensor | None, classes: bool) -> tuple[Column, ...]:
    """The facts of each column of a finite table. `targets`: one per row, classes or amounts."""
    return tuple(_column(table[:, index], targets, classes) for index in range(table.shape[1]))


def is_noise(rows: Tensor) -> bool:
    """All positions of a row have one distribution and do not correlate, as random draws make them.

    Of tokens: all occur equally often."""
    flat = rows.detach().reshape(len(rows), -1)
    if not flat.dtype.is_floating_point:
        counts = torch.unique(flat, return_counts=True)[1].double()
        return bool(counts.max() - counts.mean() <= ERRORS * counts.mean().sqrt())
    if len(flat) < 2:
        return False  # one row has no distribution
    flat = flat[:, :: -(-flat.shape[1] // POSITIONS)].double()
    spread = flat.std().clamp_min(1e-12)
    allowed = ERRORS / len(flat) ** 0.5
    ordered = flat.sort(0).values
    alike = [flat.mean(0), flat.std(0), *(ordered[round(q * (len(ordered) - 1))] for q in (0.1, 0.9))]
    if any(bool((facts - facts.median()).abs().max() > 2 * allowed * spread) for facts in alike):
        return False
    scaled = (flat - flat.mean(0)) / flat.std(0).clamp_min(1e-12)
    related = (scaled.T @ scaled / len(flat)).fill_diagonal_(0.0)
    return bool(related.abs().max() <= allowed)


def _column(values: Tensor, targets: Tensor | None, classes: bool) -> Column:
    finite = values.isfinite()
    values = values if bool(finite.all()) else values[finite]
    if not values.numel():
        return Column(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0)
    ordered = _sorted(values)
    low, high = (ordered[round(q * (len(ordered) - 1))].item() for q in (0.1, 0.9))
    facts: dict[str, Any] = {}
    if targets is not None and len(targets) == len(values) >= LEAST_ROWS:
        if classes:
            facts["predicts"], facts["margin"] = _predicts(values, targets)
            facts["pinned"] = _pinned(values, targets)
            facts["by_default"] = _by_default(values, targets)
        else:
            facts["correlation"] = correlation(values, targets)
    mean = mean_of(values)
    return Column(
        mean=mean,
        deviation=deviation_of(values, mean),
        low=low,
        high=high,
        smallest=ordered[0].item(),
        largest=ordered[-1].item(),
        distinct=_distinct(ordered),
        repeated=_repeated(ordered),
        **facts,
    )


def _sorted(values: Tensor) -> Tensor:
    """A sorted copy. `torch.sort` also makes the indices, which take as much memory: the pixels of a few batches are a
    million numbers."""
    copy = values.clone()
    copy.numpy().sort()
    return copy


def _distinct(ordered: Tensor) -> int:
    """Of sorted numbers."""
    return int((ordered[1:] != ordered[:-1]).count_nonzero()) + 1 if len(ordered) else 0


def _repeated(ordered: Tensor) -> Repeated | None:
    """A value at an end of the range that many rows have and that lies far from all others: a sentinel."""
    if len(ordered) < LEAST_ROWS:
        return None
    for end, step in ((0, 1), (len(ordered) - 1, -1)):
        same = int((ordered == ordered[end]).count_nonzero())
        rest = ordered[same:] if step == 1 else ordered[: len(ordered) - same]
        if not max(LEAST_SAME, LEAST_SHARE * len(ordered)) <= same <= MOST_SHARE * len(ordered):
            continue
        if _distinct(rest) < LEAST_DISTINCT:
            continue
        spread = (rest[round(0.9 * (len(rest) - 1))] - rest[round(0.1 * (len(rest) - 1))]).item()
        gap = abs((rest[0 if step == 1 else -1] - ordered[end]).item())
        if spread > 0:
            whole = (rest[-1] - rest[0]).item()
            found = Repeated(ordered[end].item(), same / len(ordered), gap / spread, gap / whole)
            if found.gap > 1:
                return found
    return None


def _predicts(values: Tensor, targets: Tensor) -> tuple[float, float]:
    """Share of rows whose neighbor in sorted order has the same class, and the margin between classes.

    Rows with equal values count as one group with one answer, so that a constant column predicts the majority.
    """
    order = values.argsort(stable=True)
    sorted_values, labels = values[order], targets[order]
    groups = torch.zeros_like(sorted_values, dtype=torch.long)
    groups[1:] = (sorted_values[1:] != sorted_values[:-1]).cumsum(0)
    _, compact = torch.unique(labels, return_inverse=True)
    counts = torch.zeros(int(groups[-1]) + 1, int(compact.max()) + 1, dtype=torch.float32)
    counts.index_put_((groups, compact), torch.ones(len(groups), dtype=torch.float32), accumulate=True)
    best = counts.max(1)
    if counts.shape[0] > 0.5 * len(values):  # continuous: the class of the next value
        agree = (compact[1:] == compact[:-1]).double().mean().item()
    else:  # the most frequent class of each value
        agree = best.values.sum().item() / len(values)
        sorted_values, compact = torch.unique_consecutive(sorted_values), best.indices
    change = (compact[1:] != compact[:-1]).nonzero().reshape(-1)
    span = (sorted_values[-1] - sorted_values[0]).item()
    if not len(change) or span <= 0:
        return agree, 0.0
    jumps = (sorted_values[1:] - sorted_values[:-1])[change]
    return agree, (jumps.median().item() / span)


def _pinned(values: Tensor, targets: Tensor) -> float:
    """Share of the rows whose class has one single value."""
    groups = [values[targets == label] for label in torch.unique(targets)]
    return sum(len(group) for group in groups if bool((group == group[0]).all())) / len(values)


def _by_default(values: Tensor, targets: Tensor) -> float | None:
    """Share of rows whose class is given by whether they have the most frequent value: counters, dates and amounts that
    stay empty."""
    found, counts = torch.unique(values, return_counts=True)
    often = int(counts.max())
    if len(found) < 2 or (len(found) > FEW_VALUES and often < DEFAULT * len(values)):
        return None
    usual = values == found[counts.argmax()]
    right = sum(int(torch.unique(targets[side], return_counts=True)[1].max()) for side in (usual, ~usual))
    return right / len(values)
