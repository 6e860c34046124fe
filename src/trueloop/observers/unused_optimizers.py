"""Optimizers that never step while gradients come to their parameters and are cleared again."""

import weakref
from dataclasses import dataclass

from torch import Tensor

from trueloop.event import OptimizerIdle, Place
from trueloop.measure.parameters import parameters_of
from trueloop.observers.observer import Observer
from trueloop.taps.calls import BackwardCall, BuiltOptimizer, RunEnd, StepCall
from trueloop.torch_private.tensors import tensor_version

__all__ = ["UnusedOptimizersObserver"]


@dataclass(slots=True)
class _Waiting:
    """An optimizer that has not stepped yet, seen through one of its parameters."""

    parameter: weakref.ref[Tensor]
    version: int
    name: str
    place: Place | None
    backwards: int = 0
    cleared: int = 0
    backward_place: Place | None = None
    training: bool = False  # it belongs to a model that was in train mode at the first backward
    moved: bool = False  # something else changes it


class UnusedOptimizersObserver(Observer):
    emits = (OptimizerIdle,)

    def prepare(self) -> None:
        self._waiting: dict[int, _Waiting] = {}

    def optimizer_built(self, built: BuiltOptimizer) -> None:
        last = list(parameters_of(built.optimizer))[-1:]  # the one nearest to the loss
        for parameter in last:
            name = type(built.optimizer).__name__
            waiting = _Waiting(weakref.ref(parameter), tensor_version(parameter), name, built.place)
            self._waiting[self.objects.optimizer(built.optimizer).number] = waiting

    def step_started(self, call: StepCall) -> None:
        if self._waiting:
            self._waiting.pop(self.objects.optimizer(call.optimizer).number, None)

    def backward_started(self, call: BackwardCall) -> None:
        for waiting in self._waiting.values():
            parameter = waiting.parameter()
            if waiting.backwards and parameter is not None and parameter.grad is None:
                waiting.cleared += 1

    def backward_ended(self, call: BackwardCall) -> None:
        for waiting in self._waiting.values():
            parameter = waiting.parameter()
            if parameter is not None and parameter.grad is not None:
                waiting.training = waiting.training or (not waiting.backwards and self._is_trained(parameter))
                waiting.moved = waiting.moved or tensor_version(parameter) != waiting.version
                waiting.backwards += 1
                waiting.backward_place = call.place

    def run_ended(self, end: RunEnd) -> None:
        if self.bus.scaler_used:
            return  # a scaler skips steps; another rule reports that
        for number, idle in self._waiting.items():
            if idle.moved or not idle.training:
                continue
            self.emit(OptimizerIdle, idle.place, number, idle.name, idle.backwards, idle.cleared, idle.backward_place)

    def _is_trained(self, parameter: Tensor) -> bool:
        owners = [m for _, m in self.objects.living_models() if any(p is parameter for p in m.parameters())]
        return any(module.training for module in owners)
