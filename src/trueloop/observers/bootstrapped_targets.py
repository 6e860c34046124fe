"""Targets of value learning, `reward + discount * value(next state)`: which values they read, and what they leave out.

Found by what runs in recorded training steps: what a model computed without a graph, times a number below 1, plus a
tensor that no model computed. A value may be multiplied by a tensor on its way, a mask.
"""

import weakref
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from operator import eq
from typing import Any, Final

import torch
from torch import Tensor

from trueloop.event import Place, TargetsBootstrapped
from trueloop.event.operation_names import (
    ADDITIONS,
    DIFFERENCES,
    DISTANCE_LOSSES,
    JOINS,
    PRODUCTS,
    SHAPES,
    SUBTRACTIONS,
)
from trueloop.measure.series import flags_in, row_marks
from trueloop.measure.state_chains import StateChains
from trueloop.measure.tensors import is_plain, is_readable, tensors_in
from trueloop.observers.observer import Observer
from trueloop.taps.calls import BackwardCall, ModuleCall, OperationCall, ProgramStart
from trueloop.taps.variables import users_variables
from trueloop.usercode.names import words_of

__all__ = ["BootstrappedTargetsObserver"]

ROWS: Final = 16  # at least
NUMBERS: Final = 2**16  # elements of an input
_KEEPING: Final = SHAPES | SUBTRACTIONS | {
    "max", "amax", "min", "minimum", "detach", "float", "to", "clone", "gather", "contiguous", "data",
}  # fmt: skip
_COMPARING: Final = DIFFERENCES | DISTANCE_LOSSES
_STACKED: Final = JOINS | {"stack"}
ITEMS: Final = 512  # of a list of tensors, one for each time step, that are looked at
_TERMINAL: Final = frozenset({"done", "dones", "terminal", "terminals", "terminated"})
_ENDS: Final = frozenset({"end", "ends", "ended", "over", "last", "final", "finished"})
"""In the names of flags beside stored rows, where other columns of zeros and ones may lie. An end may be the end of the
time: then the rewards of those rows must be others than those of all other rows."""


@dataclass(frozen=True, slots=True)
class _Value:
    tensor: weakref.ref[Tensor]
    call: int  # the call of a model that it comes from
    discount: float = 1.0
    masked: bool = False


@dataclass(frozen=True, slots=True)
class _Target:
    place: Place | None
    rows: int
    call: int
    discount: float
    masked: bool
    flags: tuple[tuple[str, int, weakref.ref[Tensor], float], ...]  # name, identity, and share of ones
    rewards: tuple[float, ...]


class BootstrappedTargetsObserver(Observer):
    emits = (TargetsBootstrapped,)
    rarely = ("module_call_started", "module_call_ended", "backward_started")

    def prepare(self) -> None:
        self._on = False
        self._chains: dict[Place | None, StateChains] = {}
        self._clear()

    def _clear(self) -> None:
        self._values: dict[int, _Value] = {}
        self._inputs: list[list[float]] = []  # marks of the rows of the input, of each call of a model
        self._memory: list[int] = []  # address of that input
        self._models: list[int] = []  # number of its model
        self._trained: list[int] = []  # calls with a graph
        self._sums: dict[int, tuple[weakref.ref[Tensor], _Target]] = {}
        self._targets: list[_Target] = []  # sums that a prediction was compared with
        self._read: dict[int, weakref.ref[Tensor]] = {}
        self._picked: dict[int, tuple[weakref.ref[Tensor], int, weakref.ref[Tensor]]] = {}
        """Rows that an index took out of stored ones: how many are stored, and the index."""
        """What operations have read. A tensor has one weak reference, so it can be compared when the tensor is gone."""

    def program_started(self, start: ProgramStart) -> None:
        self._on = start.phase == "training"
        self._clear()

    def program_ended(self, start: ProgramStart) -> None:
        self._on = False
        self._clear()

    # -- what runs --

    def module_call_started(self, call: ModuleCall) -> None:
        if self._on:
            given = call.args[0] if call.args else None
            fits = isinstance(given, Tensor) and given.ndim >= 2 and _is_read(given)
            self._inputs.append(row_marks(given.flatten(1)) if fits and isinstance(given, Tensor) else [])
            self._memory.append(given.data_ptr() if fits and isinstance(given, Tensor) else 0)
            known = self.objects.model(call.module)
            self._models.append(-1 if known is None else known.number)
            if call.grad:
                self._trained.append(len(self._inputs) - 1)

    def module_call_ended(self, call: ModuleCall) -> None:
        if self._on and self._inputs:
            for tensor in tensors_in(call.output, 8):
                self._values[id(tensor)] = _Value(weakref.ref(tensor), len(self._inputs) - 1)

    def operation_ended(self, call: OperationCall) -> None:
        if not self._on or self.bus.call is not None or not call.args:
            return
        given = list(tensors_in((call.args, call.kwargs), ITEMS))
        known = [self._value(tensor) for tensor in given]
        for tensor in given:
            self._read[id(tensor)] = weakref.ref(tensor)
        if call.name in ("__setitem__", "masked_fill_") and given:
            self._values.pop(id(given[0]), None)
            return
        self._pick(call)
        self._compare(call, given)
        values = [value for value in known if value is not None]
        if not values:
            return
        if call.name in ADDITIONS and len(given) == 2 and len(values) == 1 and isinstance(call.output, Tensor):
            self._sum(call, given[known.index(None)], values[0])
        elif call.name in PRODUCTS and len(given) == 1:
            number = next((value for value in call.args[:2] if isinstance(value, float)), None)
            if number is not None:
                self._keep(call, replace(values[0], discount=values[0].discount * number))
        elif call.name in PRODUCTS and len(given) == 2 and len(values) == 1:
            other = given[known.index(None)]
            if not other.requires_grad and _is_read(other):
                discount = values[0].discount * float(other.max())
                self._keep(call, replace(values[0], discount=discount, masked=True))
        elif call.name in _KEEPING and known[0] is not None:
            self._keep(call, known[0])

    def _keep(self, call: OperationCall, value: _Value) -> None:
        for tensor in tensors_in(call.output, 4):
            self._values[id(tensor)] = replace(value, tensor=weakref.ref(tensor))

    def _value(self, tensor: Tensor) -> _Value | None:
        entry = self._values.get(id(tensor))
        return entry if entry is not None and entry.tensor() is tensor else None

    def _sum(self, call: OperationCall, reward: Tensor, value: _Value) -> None:
        """`reward + discount * value`."""
        output = call.output
        if output.requires_grad or reward.shape != output.shape or reward.numel() < ROWS or not _is_read(reward):
            return
        if not 0.3 <= value.discount < 1 or len(self._inputs[value.call]) != reward.numel():
            return
        flags: dict[int, tuple[str, int, weakref.ref[Tensor], float]] = {}
        for variables in () if value.masked else users_variables(1, 2):
            for name, tensor in flags_in(variables, reward.numel()):
                if tensor is not reward:  # an item of a list may have a second name while a loop runs over it
                    flags.setdefault(id(tensor), (name, id(tensor), weakref.ref(tensor), _ones(tensor)))
            for name, tensor, ones in self._stored_flags(reward, variables):
                flags.setdefault(id(tensor), (name, id(tensor), weakref.ref(tensor), ones))
        found = _Target(call.place, reward.numel(), value.call, value.discount, value.masked, tuple(flags.values()),
                        tuple(reward.detach().flatten().tolist()))  # fmt: skip
        self._sums[id(output)] = (weakref.ref(output), found)

    def _pick(self, call: OperationCall) -> None:
        if (
            call.name not in ("__getitem__", "index_select")
            or len(call.args) < 2
            or not is_plain(call.output)
            or not call.output.ndim
        ):
            return
        stored, index = call.args[0], call.args[-1]
        if not (is_plain(stored) and stored.ndim and is_plain(index) and index.ndim == 1):
            return
        if index.dtype in (torch.int64, torch.int32) and len(index) == len(call.output):
            self._picked[id(call.output)] = (weakref.ref(call.output), len(stored), weakref.ref(index))

    def _stored_flags(self, reward: Tensor, variables: Mapping[str, Any]) -> Iterator[tuple[str, Tensor, float]]:
        """Ends of episodes that are stored beside the rewards, and mark some of these rows."""
        ref, rows, index = self._picked.get(id(reward), (None, 0, None))
        at = None if index is None else index()
        if ref is None or ref() is not reward or at is None or rows == reward.numel():
            return
        for name, tensor in flags_in(variables, rows):
            marked, words = tensor.reshape(-1)[at] == 1, words_of(name)
            ends = bool(_ENDS.intersection(words)) and _are_apart(reward.detach().reshape(-1), marked)
            if (ends or _TERMINAL.intersection(words)) and bool(marked.any()) and not bool(marked.all()):
                yield name, tensor, _ones(marked)

    def _compare(self, call: OperationCall, given: list[Tensor]) -> None:
        """A sum, or a view of one, meets a prediction."""
        if call.name in _STACKED and isinstance(call.output, Tensor):
            sums = [entry for tensor in given if (entry := self._sums.get(id(tensor))) and entry[0]() is tensor]
            if sums:
                self._sums[id(call.output)] = (weakref.ref(call.output), sums[0][1])
            return
        for number, tensor in enumerate(given[:2]):
            entry = self._sums.get(id(tensor))
            if entry is None or entry[0]() is not tensor:
                continue
            if call.name in _COMPARING and len(given) >= 2 and given[1 - number].requires_grad:
                self._targets += [] if any(entry[1] is known for known in self._targets) else [entry[1]]
            elif call.name in _KEEPING and isinstance(call.output, Tensor):
                self._sums[id(call.output)] = (weakref.ref(call.output), entry[1])

    def backward_started(self, call: BackwardCall) -> None:
        targets, self._targets = self._targets, []
        for target in targets if self._on else ():
            unread = [(name, ones) for name, number, ref, ones in target.flags if self._read.get(number) is not ref]
            rows = self._inputs[target.call]
            # one tensor for both networks may be meant so (distillation), unless ends of episodes are masked
            memory = None if target.masked else self._memory[target.call]
            others = [number for number in self._trained if number != target.call]
            states = [self._inputs[n] for n in others if self._memory[n] != memory]
            chains = self._chains.setdefault(target.place, StateChains())
            same = any(each == rows or chains.end_where_they_began(each, rows, target.rewards) for each in states)
            equal = max((sum(map(eq, each, rows)) for each in states), default=0)
            names = tuple(dict.fromkeys(name for name, _ in unread))
            self.emit(TargetsBootstrapped, target.place, target.rows, target.discount, names,
                      unread[0][1] if unread else 0.0, same, self._models[target.call], equal)  # fmt: skip


def _are_apart(rewards: Tensor, marked: Tensor) -> bool:
    """No reward of a marked row is one of another row."""
    return not set(rewards[marked].tolist()) & set(rewards[~marked].tolist())


def _ones(flags: Tensor) -> float:
    return float(flags.detach().double().mean())


def _is_read(tensor: Tensor) -> bool:
    return is_plain(tensor) and is_readable(tensor) and tensor.is_cpu and tensor.numel() <= NUMBERS
