"""The positives of a contrastive loss: are they more similar than other pairs, or are the pairs of another layout?

Two views of N samples make 2N rows, one view after the other or both views of a sample side by side. The positives
have to follow the same layout; the similarities show which one it is, even before any training.
"""

from math import sqrt
from typing import Any, Final, Literal

import torch
from torch import Tensor

from trueloop.event import ContrastivePairsRead
from trueloop.measure.tensors import is_plain, is_readable
from trueloop.observers.observer import Observer
from trueloop.taps.calls import OperationCall, ProgramStart

__all__ = ["ContrastivePairsObserver"]

ROWS: Final = (16, 4096)  # fewest and most
_GATHERING: Final = ("gather", "take_along_dim")


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
        if not self._on or not call.args or not _is_table(call.args[0]):
            return
        table, positives = call.args[0], _positives(call)
        if positives is None or not is_plain(positives) or not is_readable(positives) or not is_readable(table):
            return
        pairs = _layout(positives)
        if pairs is not None:
            found = _compared(table.detach().double(), pairs)
            if found is not None:
                self.emit(ContrastivePairsRead, call.place, len(table), pairs, *found)


def _is_table(value: Any) -> bool:
    square = is_plain(value) and value.ndim == 2 and value.shape[0] == value.shape[1]
    return square and value.requires_grad and value.shape[0] % 2 == 0 and ROWS[0] <= value.shape[0] <= ROWS[1]


def _positives(call: OperationCall) -> Tensor | None:
    """The column of the positive of each row; None where the call takes none."""
    table, others = call.args[0], call.args[1:]
    if call.name == "cross_entropy":
        return others[0] if others else call.kwargs.get("target")
    index = others[0] if others else None
    if call.name in _GATHERING:
        index = next((value for value in others if isinstance(value, Tensor)), call.kwargs.get("index"))
        return index[:, 0] if isinstance(index, Tensor) and index.shape == (len(table), 1) else None
    if call.name != "__getitem__":
        return None
    if isinstance(index, tuple) and len(index) == 2 and all(isinstance(part, Tensor) for part in index):
        rows, columns = index
        every = rows.shape == columns.shape == (len(table),)
        return columns if every and bool((rows.cpu() == torch.arange(len(table))).all()) else None
    if isinstance(index, Tensor) and index.dtype is torch.bool and index.shape == table.shape:
        return index.int().argmax(1) if bool((index.sum(1) == 1).all()) else None
    return None


def _layout(positives: Tensor) -> Literal["neighbors", "halves"] | None:
    rows = torch.arange(len(positives)) if positives.ndim == 1 else None
    if rows is None or positives.is_floating_point() or positives.dtype is torch.bool:
        return None
    given = positives.cpu()
    if torch.equal(given, rows ^ 1):
        return "neighbors"
    return "halves" if torch.equal(given, (rows + len(rows) // 2) % len(rows)) else None


def _compared(table: Tensor, pairs: str) -> tuple[float, float, float] | None:
    """How far the positives, the pairs of the other layout, and the best pairs of no layout are above all other pairs,
    in standard errors."""
    count, half = len(table), len(table) // 2
    rows = torch.arange(count, device=table.device)
    columns = {"neighbors": rows ^ 1, "halves": (rows + half) % count}
    rest = torch.ones_like(table, dtype=torch.bool)
    for taken in (rows, *columns.values()):
        rest[rows, taken] = False
    values = table[rest]
    if not bool(values.isfinite().all()) or float(values.std()) == 0:
        return None
    mean, error = float(values.mean()), float(values.std()) / sqrt(half)

    def above(partners: Tensor) -> float:
        return (float(table[rows, partners].mean()) - mean) / error

    other = next(kind for kind in columns if kind != pairs)
    unrelated = [(rows + 1 - 2 * (rows % 2 == 0).long()) % count, (rows + half // 2) % count, (rows + half + 2) % count]
    return above(columns[pairs]), above(columns[other]), max(map(above, unrelated))
