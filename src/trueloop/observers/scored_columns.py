"""Columns of a value that is scored by a density, and that are data as they were: no layer has transformed them.

A flow may have layers with one learned factor and one learned shift per column. After these, a column that no other
layer transforms is a column of the data times a constant, plus a constant. Differences to other rows (a target) may be
so too, by the law that made the targets: they are not compared in this way.
"""

import weakref
from typing import Any, Final

import torch
from torch import Tensor

from trueloop.event import ColumnsScored, Place
from trueloop.event.operation_names import DIFFERENCES, POWERS, PRODUCTS, SCALINGS
from trueloop.measure.tensors import is_plain, is_readable
from trueloop.observers.observer import Observer
from trueloop.taps.calls import OperationCall, ProgramStart

__all__ = ["ScoredColumnsObserver"]

COLUMNS: Final = (2, 64)  # fewest and most
ROWS: Final = (8, 256)  # fewest, and the most that are compared
MOST_DATA: Final = 16  # tensors of a step
LAYERS: Final = 3
"""Of learned factors, before columns are compared up to constants: a single coupling or autoregressive layer may have
one on each side, and its first column is what a normal distribution of that column asks for."""
ROUNDING: Final = 64  # units in the last place of the largest number: what many layers of constants may add up to
MOVED: Final = 1e-3  # of a column's standard deviation: certainly not rounding


class ScoredColumnsObserver(Observer):
    emits = (ColumnsScored,)

    def prepare(self) -> None:
        self._on = False
        self._data: list[tuple[weakref.ref[Tensor], Tensor]] = []
        """Each with a copy of its first rows: a loop often drops the batch before its value is scored."""
        self._seen: set[Place | None] = set()
        self._compared: set[Place | None] = set()
        self._constants = 0
        self._differences: dict[int, weakref.ref[Tensor]] = {}

    def program_started(self, start: ProgramStart) -> None:
        self._on = start.phase == "training"
        self._data, self._seen, self._differences = [], set(), {}
        self._constants = 0

    def program_ended(self, _: ProgramStart) -> None:
        self._on, self._data, self._differences = False, [], {}

    def operation_ended(self, call: OperationCall) -> None:
        if not self._on:
            return
        given = [value for value in call.args[:3] if _is_rows(value)]
        for tensor in given:
            new = not tensor.requires_grad and not any(ref() is tensor for ref, _ in self._data)
            if new and len(self._data) < MOST_DATA:
                self._data.append((weakref.ref(tensor), tensor.detach()[: ROWS[1]].clone()))
        if given and given[0].requires_grad and _is_square(call) and call.place not in self._seen:
            self._compare(given[0], call.place)
        elif given:
            self._follow(call, given)

    def _follow(self, call: OperationCall, given: list[Tensor]) -> None:
        self._constants += call.name in SCALINGS and any(_is_constant(value) for value in call.args[:2])
        rows = [value for value in given if not value.requires_grad and _varies(value)]
        apart = call.name in DIFFERENCES and len(given) > 1 and bool(rows)
        if (apart or any(self._is_difference(value) for value in given)) and _is_rows(call.output):
            self._differences[id(call.output)] = weakref.ref(call.output)

    def _is_difference(self, value: Tensor) -> bool:
        ref = self._differences.get(id(value))
        return ref is not None and ref() is value

    @torch.no_grad()
    def _compare(self, scored: Tensor, place: Place | None) -> None:
        rows = scored.detach()[: ROWS[1]]
        varying = rows.std(0) > 0
        layers = self._constants if self._constants >= LAYERS and not self._is_difference(scored) else 0
        comparable = [values for _, values in self._data if values.shape == rows.shape and values.dtype == rows.dtype]
        for values in comparable:
            equal = (rows[:, :, None] == values[:, None, :]).all(0).any(1) & varying
            if bool(equal.any()):
                self._report(scored, place, int(equal.sum()), 0)
                return
        if layers:
            still = [found for values in comparable if (found := _up_to_constants(rows, values)) is not None]
            most = max((int((found & varying).sum()) for found in still), default=0)
            if most or place in self._compared:
                self._report(scored, place, most, layers)

    def _report(self, scored: Tensor, place: Place | None, unchanged: int, layers: int) -> None:
        self._seen.add(place)
        self._compared.add(place)
        self.emit(ColumnsScored, place, scored.shape[1], unchanged, len(scored), layers)


def _up_to_constants(rows: Tensor, data: Tensor) -> Tensor | None:
    """Columns that are a column of the data times a constant, plus a constant, but for rounding; None if one is too
    close to it to tell."""
    y, x = rows.double(), data.double()
    x, largest = x - x.mean(0), x.abs().amax(0)
    spread = y.std(0)
    y = y - y.mean(0)
    slope = (y.T @ x) / x.square().sum(0).clamp_min(torch.finfo(torch.double).tiny)
    rest = (y[:, :, None] - slope * x[:, None, :]).abs().amax(0)
    room = torch.maximum(rows.abs().amax(0).double()[:, None], slope.abs() * largest)
    still = (rest <= ROUNDING * torch.finfo(rows.dtype).eps * room).any(1)
    moved = (rest >= MOVED * spread[:, None]).all(1)
    return still if bool((still | moved).all()) else None


def _is_constant(value: Any) -> bool:
    """Learned, with the same numbers for all rows: [columns] or [1, columns]."""
    if not is_plain(value) or not value.requires_grad or not value.is_floating_point() or not 1 <= value.ndim <= 2:
        return False
    return COLUMNS[0] <= value.shape[-1] <= COLUMNS[1] and (value.ndim == 1 or len(value) == 1)


def _varies(value: Tensor) -> bool:
    return bool((value != value[:1]).any())


def _is_rows(value: Any) -> bool:
    if not is_plain(value) or value.ndim != 2 or not value.is_floating_point() or not value.is_cpu:
        return False
    return COLUMNS[0] <= value.shape[1] <= COLUMNS[1] and len(value) >= ROWS[0] and is_readable(value)


def _is_square(call: OperationCall) -> bool:
    if call.name in PRODUCTS:
        return len(call.args) == 2 and call.args[0] is call.args[1]
    return call.name == "square" or (call.name in POWERS and len(call.args) == 2 and call.args[1] == 2)
