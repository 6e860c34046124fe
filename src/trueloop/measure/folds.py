"""Folds of a cross-validation as one model sees them: which rows are trained, held out, and trained again.

Held-out rows that are trained on later, and trained rows that are held out later, while others stay in training, are
the folds of one model that is built only once. Rows are known by their digests; where every fold has its own scaling,
by their values.
"""

from typing import Final, final

import torch
from torch import Tensor

from trueloop.measure.tensors import evenly_spaced

__all__ = ["Folds"]

SWAPPED: Final = 8  # rows that were held out before and are trained on now
KEPT: Final = 0.3  # rows that are trained on before and after, for each of those
WHOLE: Final = 0.5  # of all rows: trained on since these were held out
PARTS: Final = 4  # of the training, by rows that appear after an evaluation
PART_ROWS: Final = 1024
SAMPLE: Final = 128  # evaluated rows
MOST_COLUMNS: Final = 64
LEAST_COLUMNS: Final = 3  # with many different values
LEAST_ROWS: Final = 20
SAME: Final = 1e-3  # distance to the same row in another scaling, in standard deviations
MOST_CHECKS: Final = 40


@final
class Folds:
    """The rows of one model, until its weights are reset."""

    def __init__(self) -> None:
        self._first: dict[int, int] = {}  # the training call in which a row came first
        self._latest: dict[int, int] = {}
        self._held_out: set[int] = set()  # evaluated before they were trained on
        self._calls = 0
        self._evaluated_at = self._before = -1  # training calls before the latest evaluation, and the one before it
        self._parts: list[list[Tensor]] = []
        self._samples: dict[int, Tensor] = {}  # by the number of parts: evaluated rows
        self._new_part = True
        self._checks = 0

    def train(self, rows: list[int], values: Tensor) -> None:
        self._calls += 1
        new = any(row not in self._first for row in rows)
        for row in rows:
            self._first.setdefault(row, self._calls)
        self._latest.update(dict.fromkeys(rows, self._calls))
        if not new or not _is_table(values):
            return
        if self._new_part and len(self._parts) < PARTS:
            self._parts.append([])
            self._new_part = False
        if not self._new_part and sum(map(len, self._parts[-1])) < PART_ROWS:
            self._parts[-1].append(_columns(values[:PART_ROWS]))

    def evaluate(self, rows: list[int], values: Tensor) -> int:
        """How many of the rows were trained on in an earlier fold and are held out now."""
        if not self._first:
            return 0
        if self._calls != self._evaluated_at:
            self._before, self._evaluated_at = self._evaluated_at, self._calls
        self._new_part = True
        known = [row for row in rows if row in self._first]
        self._held_out.update(row for row in rows if row not in self._first)
        if not known and len(self._parts) > 1 and len(self._parts) not in self._samples and _is_table(values):
            self._samples[len(self._parts)] = _columns(evenly_spaced(values, SAMPLE))
        if len(known) < max(1, len(rows) / 2) or self._checks >= MOST_CHECKS:
            return 0
        latest = max(self._latest[row] for row in known)
        if latest > self._before:
            return 0
        self._checks += 1
        swapped = sum(first > latest and row in self._held_out for row, first in self._first.items())
        kept = sum(self._first[row] <= latest < last for row, last in self._latest.items())
        whole = swapped + kept >= WHOLE * len(self._first)  # a replay buffer is never trained on as a whole
        return len(known) if whole and swapped >= SWAPPED and kept >= KEPT * swapped else 0

    def rescaled(self) -> int:
        """How many evaluated rows were trained on in an earlier fold in a different scaling."""
        found = 0
        for number, sample in self._samples.items():
            own = torch.cat(self._parts[number - 1])
            for part in self._parts[: number - 1]:
                found = max(found, _same_rows(sample, own, torch.cat(part)))
        return found


def _is_table(values: Tensor) -> bool:
    return values.ndim == 2 and values.dtype.is_floating_point and values.shape[1] >= LEAST_COLUMNS


def _columns(values: Tensor) -> Tensor:
    flat = values.detach().reshape(len(values), -1)
    return evenly_spaced(flat.T, MOST_COLUMNS).T.float().cpu().clone()


def _same_rows(rows: Tensor, own: Tensor, others: Tensor) -> int:
    """Rows that are, up to one scaling of each column, among the others. `own`: the training rows in their scaling."""
    if rows.shape[1] != others.shape[1] or len(rows) < LEAST_ROWS or len(others) < LEAST_ROWS:
        return 0
    rows, own, others = rows.double(), own.double(), others.double()
    fine = torch.tensor([len(torch.unique(column)) > len(rows) / 2 for column in rows.T])
    fine &= (own.std(0) > 0) & (others.std(0) > 0)
    if int(fine.sum()) < LEAST_COLUMNS or not bool(rows.isfinite().all() and others.isfinite().all()):
        return 0
    rows, own, others = rows[:, fine], own[:, fine], others[:, fine]
    rows, others = (rows - own.mean(0)) / own.std(0), (others - others.mean(0)) / others.std(0)
    distances, nearest = torch.cdist(rows, others).min(1)
    close = distances <= distances.quantile(0.75)
    for _ in range(2):
        x, y = rows[close], others[nearest[close]]
        slope = ((x - x.mean(0)) * (y - y.mean(0))).mean(0) / x.var(0, correction=0).clamp_min(1e-12)
        moved = (rows - x.mean(0)) * slope + y.mean(0)
        distances, nearest = torch.cdist(moved, others, compute_mode="donot_use_mm_for_euclid_dist").min(1)
        close = distances <= max(distances.median().item(), SAME)
    if len(torch.unique(nearest)) < 0.8 * len(rows):
        return 0  # one row that is near to all of them: a slope of 0 moves every row onto it
    same = int((distances < SAME * rows.shape[1] ** 0.5).sum())
    return same if same >= max(LEAST_ROWS, 0.8 * len(rows)) else 0
