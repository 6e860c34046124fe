"""Weights before a step, after it, and before the next one: is the update still there?"""

import weakref
from dataclasses import dataclass, field
from typing import Final

import torch
from torch import Tensor

from trueloop.event import UpdatesUndone
from trueloop.measure.parameters import parameters_of
from trueloop.measure.tensors import evenly_spaced, is_plain, is_readable
from trueloop.observers.observer import Observer
from trueloop.taps.calls import StepCall

__all__ = ["UndoneUpdatesObserver"]

FIRST: Final = 6  # steps of each optimizer that are compared
OPTIMIZERS: Final = 8  # of a run
WEIGHTS: Final = 12  # of an optimizer
NUMBERS: Final = 512  # elements of each, over the whole weight
SMALLEST: Final = 16  # elements


@dataclass(slots=True)
class _Weight:
    parameter: weakref.ref[Tensor]
    before: Tensor
    changed: bool = False


@dataclass(slots=True)
class _Look:
    weights: list[_Weight] = field(default_factory=list)
    step: int = 0  # of the run, after that step


class UndoneUpdatesObserver(Observer):
    emits = (UpdatesUndone,)

    def prepare(self) -> None:
        self._looks: dict[int, _Look] = {}

    def watching_resumed(self, nothing: None) -> None:
        self._looks.clear()

    def step_started(self, call: StepCall) -> None:
        known = self.objects.optimizer(call.optimizer)
        if call.closure or call.index > FIRST or known.number >= OPTIMIZERS:
            return
        look = self._looks.pop(known.number, None)
        if look is not None and look.step == self.bus.step:
            self._compare(call, known.number, known.name, look)
        if call.index < FIRST:
            self._looks[known.number] = _Look([_Weight(weakref.ref(p), _numbers(p)) for p in _chosen(call)])

    def step_ended(self, call: StepCall) -> None:
        look = self._looks.get(self.bus.ordinal("optimizer", call.optimizer))
        if look is None or call.index >= FIRST:
            return
        look.step = self.bus.step + 1
        for weight in look.weights:
            parameter = weight.parameter()
            weight.changed = parameter is not None and not torch.equal(_numbers(parameter), weight.before)

    def _compare(self, call: StepCall, number: int, name: str, look: _Look) -> None:
        changed = [(p, w) for w in look.weights if w.changed and (p := w.parameter()) is not None]
        undone = [(self.objects.name_of(p), w) for p, w in changed if torch.equal(_numbers(p), w.before)]
        constant = tuple(n for n, w in undone if bool((w.before == w.before[0]).all()))
        names = tuple(n for n, _ in undone)
        self.emit(UpdatesUndone, call.place, number, name, call.index, len(changed), names, constant)


def _chosen(call: StepCall) -> list[Tensor]:
    fit = [
        p
        for p in parameters_of(call.optimizer)
        if p.ndim >= 2 and p.numel() >= SMALLEST and p.grad is not None and is_plain(p) and is_readable(p) and p.is_cpu
    ]
    return fit[:: max(1, -(-len(fit) // WEIGHTS))]


@torch.no_grad()
def _numbers(parameter: Tensor) -> Tensor:
    return evenly_spaced(parameter.detach().reshape(-1), NUMBERS).clone()
