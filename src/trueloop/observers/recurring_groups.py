"""Training rows and evaluated rows in which several columns come again together: groups that nothing names.

The rows of the first epoch are copied once, and those of the first evaluation; nothing is copied after that.
"""

from dataclasses import dataclass, field
from typing import Final

import numpy
import torch
from torch import Tensor

from trueloop.event import GroupsRecognized, Place
from trueloop.measure.recurring_groups import recurring_groups
from trueloop.measure.rows import digests
from trueloop.measure.tensors import is_plain, is_readable, tensors_in
from trueloop.observers.observer import Observer
from trueloop.taps.calls import LossCall, ModuleCall, RunEnd

__all__ = ["RecurringGroupsObserver"]

MOST_ROWS: Final = 8192  # of a phase: with more, the rows of a group are not all there, and nothing is concluded
MOST_CALLS: Final = 1024  # of a phase
WIDEST: Final = 64  # columns
NARROWEST: Final = 4
MOST_MODELS: Final = 8
FEW: Final = 0.02  # of the rows come again: then the first epoch is complete


@dataclass(slots=True)
class _Rows:
    place: Place | None
    width: int
    parts: list[Tensor] = field(default_factory=list)
    targets: list[Tensor] = field(default_factory=list)  # beside the parts
    known: set[int] = field(default_factory=set)
    calls: int = 0
    closed: bool = False


class RecurringGroupsObserver(Observer):
    emits = (GroupsRecognized,)

    def prepare(self) -> None:
        self._trained: dict[int, _Rows] = {}
        self._evaluated: dict[int, _Rows] = {}
        self._waiting: tuple[_Rows, Tensor] | None = None

    def module_call_started(self, call: ModuleCall) -> None:
        self._waiting = None
        known = self.objects.model(call.module)
        if known is None or call.recalibration:
            return
        training = call.grad and call.training
        side = self._trained if training else self._evaluated
        entry = side.get(known.number)
        if entry is not None and entry.closed:
            return
        tensors = [*tensors_in(call.args), *tensors_in(call.kwargs)]
        if len(tensors) != 1 or not _is_table(tensors[0]):
            return
        rows = tensors[0].detach()
        if entry is None:
            if len(side) >= MOST_MODELS:
                return
            entry = side[known.number] = _Rows(call.place, rows.shape[1])
        entry.calls += 1
        numbers = digests(rows) if rows.is_cpu and entry.width == rows.shape[1] else []
        if entry.width != rows.shape[1] or entry.calls > MOST_CALLS or (numbers and entry.known.issuperset(numbers)):
            entry.closed = training or entry.calls > MOST_CALLS
            return
        entry.known.update(numbers)
        if training:
            self._waiting = (entry, rows.clone())
        else:
            _keep(entry, rows.clone(), None)

    def loss_called(self, loss: LossCall) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting is None or not is_plain(loss.target) or not is_readable(loss.target):
            return
        entry, rows = waiting
        if loss.target.numel() == len(rows) and not loss.target.requires_grad:
            _keep(entry, rows, loss.target.detach().reshape(-1).clone())

    def run_ended(self, end: RunEnd) -> None:
        for number, evaluated in self._evaluated.items():
            trained = self._trained.get(number)
            if trained is None or trained.width != evaluated.width or not (trained.parts and evaluated.parts):
                continue
            pairs = _distinct(trained)
            others = torch.cat(evaluated.parts).cpu()
            mine = set(digests(torch.cat(trained.parts).cpu()))
            fresh = _first(others, mine)
            if pairs is None or not fresh:
                continue
            rows, targets = pairs
            found = recurring_groups(_numbers(rows), _amounts(targets), _numbers(others[fresh]))
            name = self.objects.models[number].name
            facts = (0, 0, 0, len(fresh), 0.0, 0.0, 0.0) if found is None else found
            self.emit(GroupsRecognized, evaluated.place, number, name, *facts)


def _is_table(tensor: Tensor) -> bool:
    if not is_plain(tensor) or tensor.ndim != 2 or not is_readable(tensor):
        return False
    return tensor.dtype.is_floating_point and NARROWEST <= tensor.shape[1] <= WIDEST and len(tensor) <= MOST_ROWS


def _keep(entry: _Rows, rows: Tensor, targets: Tensor | None) -> None:
    entry.parts.append(rows)
    if targets is not None:
        entry.targets.append(targets)
    entry.closed = sum(map(len, entry.parts)) >= MOST_ROWS


def _distinct(trained: _Rows) -> tuple[Tensor, Tensor] | None:
    """Each training row once; None if more rows were trained on than are kept."""
    rows, targets = torch.cat(trained.parts).cpu(), torch.cat(trained.targets).cpu()
    first = _first(rows, set())
    if len(rows) >= MOST_ROWS and len(first) > (1 - FEW) * len(rows):
        return None
    return rows[first], targets[first]


def _first(rows: Tensor, known: set[int]) -> list[int]:
    """The places of the rows that come for the first time."""
    found, known = [], set(known)
    for index, number in enumerate(digests(rows)):
        if number not in known:
            found.append(index)
            known.add(number)
    return found


def _numbers(rows: Tensor) -> numpy.typing.NDArray[numpy.float64]:
    found: numpy.typing.NDArray[numpy.float64] = rows.double().numpy()
    return found


def _amounts(targets: Tensor) -> numpy.typing.NDArray[numpy.float64]:
    """Amounts as they are; of several classes, whether it is the most frequent one."""
    if not targets.dtype.is_floating_point:
        classes, counts = torch.unique(targets, return_counts=True)
        if len(classes) > 2:
            targets = targets == classes[counts.argmax()]
    return _numbers(targets)
