"""The positives of a contrastive loss: are they more similar than other pairs, or are the pairs of another layout?

Two views of N samples make 2N rows, one view after the other or both views of a sample side by side. The positives
have to follow the same layout; the similarities show which one it is, even before any training.
"""

import zlib
from math import isfinite, sqrt
from typing import Any, Final, Literal, NamedTuple

import torch
from torch import Tensor

from trueloop.event import ContrastivePairsRead
from trueloop.event.operation_names import CLASS_LOSSES, PRODUCTS
from trueloop.measure.tensors import is_plain, is_readable
from trueloop.observers.observer import Observer
from trueloop.taps.calls import OperationCall, ProgramStart

__all__ = ["ContrastivePairsObserver"]

ROWS: Final = (16, 4096)  # fewest and most
_GATHERING: Final = ("gather", "take_along_dim")
_PICKING: Final = ("__getitem__", "masked_select")
_DIAGONALS: Final = ("diag", "diagonal")


class _Pairs(NamedTuple):
    """One positive of each row, or of one half of the rows."""

    rows: Tensor
    columns: Tensor


class ContrastivePairsObserver(Observer):
    emits = (ContrastivePairsRead,)

    def prepare(self) -> None:
        self._on = False

    def program_started(self, start: ProgramStart) -> None:
        self._on = start.phase == "training"

    def program_ended(self, _: ProgramStart) -> None:
        self._on = False

    @torch.no_grad()
    def operation_ended(self, call: OperationCall) -> None:
        table = next((value for value in call.args[:2] if _is_table(value)), None) if self._on else None
        if table is None or not is_readable(table):
            return
        found = _positives(call, table)
        if found is None or 2 * len(found.rows) < len(table):
            return
        pairs = _layout(found, len(table))
        compared = _compared(table.detach().double(), found)
        if compared is not None:
            self.emit(ContrastivePairsRead, call.place, len(table), pairs, _number(found), *compared)


def _is_table(value: Any) -> bool:
    square = is_plain(value) and value.ndim == 2 and value.shape[0] == value.shape[1]
    return square and value.requires_grad and value.shape[0] % 2 == 0 and ROWS[0] <= value.shape[0] <= ROWS[1]


def _positives(call: OperationCall, table: Tensor) -> _Pairs | None:
    """The positive of each row; None where the call takes none."""
    others = [value for value in call.args[:3] if value is not table]
    first = others[0] if others else None
    if call.name in CLASS_LOSSES:
        return _of_each_row(call.kwargs.get("target", first), table)
    if call.name in _GATHERING:
        index = next((value for value in others if isinstance(value, Tensor)), call.kwargs.get("index"))
        single = isinstance(index, Tensor) and index.shape == (len(table), 1)
        return _of_each_row(index[:, 0], table) if isinstance(index, Tensor) and single else None
    if call.name in _DIAGONALS:
        return _diagonal(call.kwargs.get("offset", call.kwargs.get("diagonal", 0 if first is None else first)), table)
    if call.name == "__getitem__" and isinstance(first, tuple):
        return _by_coordinates(first, table)
    if call.name in _PICKING:
        return _by_mask(call.kwargs.get("mask", first), table)
    if call.name in PRODUCTS:
        found = _by_mask(first, table)
        return None if found is None or torch.equal(*found) else found  # the identity hides the diagonal
    return None


def _of_each_row(columns: Any, table: Tensor) -> _Pairs | None:
    if not _is_index(columns) or columns.shape != (len(table),):
        return None
    given = columns.cpu().long()
    inside = bool((given >= 0).all()) and bool((given < len(table)).all())
    return _Pairs(torch.arange(len(table)), given) if inside else None


def _is_index(value: Any) -> bool:
    integral = is_plain(value) and is_readable(value) and not value.is_floating_point()
    return integral and value.dtype is not torch.bool and value.ndim == 1


def _by_coordinates(index: tuple[Any, ...], table: Tensor) -> _Pairs | None:
    if len(index) != 2 or not all(_is_index(part) for part in index) or index[0].shape != index[1].shape:
        return None
    rows, columns = (part.cpu().long() % len(table) for part in index)
    return _Pairs(rows, columns) if len(rows) == len(rows.unique()) else None


def _by_mask(mask: Any, table: Tensor) -> _Pairs | None:
    if not is_plain(mask) or mask.shape != table.shape or mask.requires_grad or not is_readable(mask):
        return None
    picked = mask != 0
    ones = mask.dtype is torch.bool or bool((mask[picked] == 1).all())
    if not ones or not bool((picked.sum(1) == 1).all()):
        return None
    return _of_each_row(picked.int().argmax(1), table)


def _diagonal(offset: Any, table: Tensor) -> _Pairs | None:
    if not isinstance(offset, int) or abs(offset) >= len(table):
        return None
    first = torch.arange(len(table) - abs(offset))
    return _Pairs(first, first + offset) if offset >= 0 else _Pairs(first - offset, first)


def _number(pairs: _Pairs) -> int:
    return zlib.crc32(torch.stack(pairs).numpy().tobytes())


def _layout(pairs: _Pairs, count: int) -> Literal["neighbors", "halves", "itself", "fixed"]:
    rows, columns = pairs
    if torch.equal(columns, rows):
        return "itself"
    if torch.equal(columns, rows ^ 1):
        return "neighbors"
    return "halves" if torch.equal(columns, (rows + count // 2) % count) else "fixed"


def _compared(table: Tensor, given: _Pairs) -> tuple[float, float, float, float] | None:
    """How far the positives, the pairs of both layouts, and the best pairs of no layout are above all other pairs, in
    standard errors."""
    count, half = len(table), len(table) // 2
    rows = torch.arange(count, device=table.device)
    layouts = (rows ^ 1, (rows + half) % count)
    picked = (given.rows.to(table.device), given.columns.to(table.device))
    rest = torch.ones_like(table, dtype=torch.bool)
    rest[picked] = False
    for taken in (rows, *layouts):
        rest[rows, taken] = False
    values = table[rest]
    if not bool(values.isfinite().all()) or float(values.std()) == 0:
        return None
    mean, error = float(values.mean()), float(values.std()) / sqrt(half)
    unrelated = [(rows + 1 - 2 * (rows % 2 == 0).long()) % count, (rows + half // 2) % count, (rows + half + 2) % count]

    def above(row: Tensor, column: Tensor) -> float:
        return (float(table[row, column].mean()) - mean) / error

    positives, neighbors, halves = above(*picked), above(rows, layouts[0]), above(rows, layouts[1])
    return (positives, neighbors, halves, max(above(rows, c) for c in unrelated)) if isfinite(positives) else None
