"""An optimizer whose parameters were all frozen for the turn of a different optimizer, and never unfrozen.

The loop still runs a backward for this optimizer alone, and steps it: each player has its turn. Where one backward
serves the steps of several optimizers, a part may be frozen on purpose.
"""

import weakref
from dataclasses import dataclass
from typing import Final

from torch import Tensor

from trueloop.event import LeftFrozen, Place
from trueloop.measure.parameters import parameters_of
from trueloop.observers.observer import Observer
from trueloop.taps.calls import BackwardCall, RunEnd, StepCall

__all__ = ["LeftFrozenObserver"]

FIRST: Final = 16  # first steps of each optimizer on which it is looked at
EVERY: Final = 8  # later, one step in so many


@dataclass(slots=True)
class _Turns:
    """The steps of one optimizer."""

    name: str
    trained: int = 0  # steps before it was frozen; 0: it has not trained
    frozen: int = 0  # steps since that were watched
    again: bool = False  # it was unfrozen, or a backward before its steps serves others too: this is meant
    parameter: weakref.ref[Tensor] | None = None
    model: str = ""
    place: Place | None = None
    backward: Place | None = None


class LeftFrozenObserver(Observer):
    emits = (LeftFrozen,)
    safe_on_shards = True

    def prepare(self) -> None:
        self._turns: dict[int, _Turns] = {}
        self._backward_place: Place | None = None
        self._fresh = False  # a backward came after the latest step
        self._latest: _Turns | None = None  # stepped in vain after the latest backward

    def watching_resumed(self, nothing: None) -> None:
        self._fresh, self._latest = False, None

    def backward_started(self, call: BackwardCall) -> None:
        self._fresh, self._latest, self._backward_place = True, None, call.place

    def step_started(self, call: StepCall) -> None:
        fresh, self._fresh = self._fresh, False
        for other in self._turns.values():
            if other.frozen and other.parameter and (held := other.parameter()) is not None and held.requires_grad:
                other.again = True  # unfrozen for the turn of a different optimizer: it rests on purpose
        if self._latest is not None:  # the gradients of the backward before it serve this step
            self._latest.again, self._latest = True, None
        if call.closure or (call.index >= FIRST and call.index % EVERY):
            return
        number = self.bus.ordinal("optimizer", call.optimizer)
        turns = self._turns.setdefault(number, _Turns(type(call.optimizer).__name__))
        if turns.again:
            return
        parameters = list(parameters_of(call.optimizer))
        if any(parameter.requires_grad for parameter in parameters):
            turns.again = turns.frozen > 0
            turns.trained = self.bus.steps_taken[number] + 1
            return
        if not turns.trained:
            turns.again = True  # frozen from the start
            return
        if not fresh or any(parameter.grad is not None and bool(parameter.grad.any()) for parameter in parameters):
            turns.again = True  # its gradients come from elsewhere
            return
        if not turns.frozen:
            turns.parameter = weakref.ref(parameters[0]) if parameters else None
            turns.model = self._model_of(parameters[0]) if parameters else ""
        turns.frozen += 1
        turns.place, turns.backward = call.place, self._backward_place
        self._latest = turns

    def _model_of(self, parameter: object) -> str:
        found = (known.name for known, model in self.objects.living_models()
                 if any(p is parameter for p in model.parameters()))  # fmt: skip
        return next(found, "")

    def run_ended(self, end: RunEnd) -> None:
        for number, turns in self._turns.items():
            if turns.frozen and not turns.again:
                frozen = self.bus.steps_taken[number] - turns.trained
                self.emit(LeftFrozen, turns.place, number, turns.name, turns.model, turns.trained, frozen,
                          turns.frozen, turns.backward)  # fmt: skip
