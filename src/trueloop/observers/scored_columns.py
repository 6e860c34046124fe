"""Columns of a value that is scored by a density, and that are data as they were: no layer has transformed them."""

import weakref
from typing import Any, Final

import torch
from torch import Tensor

from trueloop.event import ColumnsScored, Place
from trueloop.event.operation_names import POWERS, PRODUCTS
from trueloop.measure.tensors import is_plain, is_readable
from trueloop.observers.observer import Observer
from trueloop.taps.calls import OperationCall, ProgramStart

__all__ = ["ScoredColumnsObserver"]

COLUMNS: Final = (2, 64)  # fewest and most
ROWS: Final = (8, 256)  # fewest, and the most that are compared
MOST_DATA: Final = 16  # tensors of a step


class ScoredColumnsObserver(Observer):
    emits = (ColumnsScored,)

    def prepare(self) -> None:
        self._on = False
        self._data: dict[int, weakref.ref[Tensor]] = {}
        self._seen: set[Place | None] = set()

    def program_started(self, start: ProgramStart) -> None:
        self._on = start.phase == "training"
        self._data, self._seen = {}, set()

    def program_ended(self, _: ProgramStart) -> None:
        self._on, self._data = False, {}

    def operation_ended(self, call: OperationCall) -> None:
        if not self._on:
            return
        given = [value for value in call.args[:3] if _is_rows(value)]
        for tensor in given:
            if not tensor.requires_grad and len(self._data) < MOST_DATA:
                self._data.setdefault(id(tensor), weakref.ref(tensor))
        if given and given[0].requires_grad and _is_square(call) and call.place not in self._seen:
            self._compare(given[0], call.place)

    @torch.no_grad()
    def _compare(self, scored: Tensor, place: Place | None) -> None:
        rows = scored.detach()[: ROWS[1]]
        varying = rows.std(0) > 0
        for ref in tuple(self._data.values()):
            data = ref()
            if data is None or data.shape != scored.shape or data.dtype != scored.dtype:
                continue
            equal = (rows[:, :, None] == data.detach()[: ROWS[1], None, :]).all(0).any(1) & varying
            if bool(equal.any()):
                self._seen.add(place)
                self.emit(ColumnsScored, place, scored.shape[1], int(equal.sum()), len(scored))
                return


def _is_rows(value: Any) -> bool:
    if not is_plain(value) or value.ndim != 2 or not value.is_floating_point() or not value.is_cpu:
        return False
    return COLUMNS[0] <= value.shape[1] <= COLUMNS[1] and len(value) >= ROWS[0] and is_readable(value)


def _is_square(call: OperationCall) -> bool:
    if call.name in PRODUCTS:
        return len(call.args) == 2 and call.args[0] is call.args[1]
    return call.name == "square" or (call.name in POWERS and len(call.args) == 2 and call.args[1] == 2)
