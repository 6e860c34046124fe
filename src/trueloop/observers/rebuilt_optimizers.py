"""Optimizers built over the parameters of an earlier one, and the state that is lost."""

import weakref
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

import torch
from torch import Tensor
from torch.optim import Optimizer

from trueloop.event import SHORT_LIFE, OptimizerRebuilt
from trueloop.measure.parameters import parameters_of
from trueloop.observers.observer import Observer
from trueloop.taps.calls import BuiltOptimizer, LoaderStart, StepCall
from trueloop.torch_private.tensors import tensor_version

__all__ = ["RebuiltOptimizersObserver"]

SAMPLE: Final = 64  # elements of the first parameter to compare: a reset of the weights changes all
REPORTS: Final = 32  # rebuilds of one set of parameters to emit


@dataclass(slots=True)
class _Line:
    """The optimizers built one after the other over the same parameters."""

    number: int
    first: weakref.ref[Tensor]
    ids: frozenset[int]
    optimizer: int
    name: str
    kept: int = 0
    closure: bool = False
    left: Tensor | None = None  # some elements of the first parameter after the last step
    reported: int = 0
    version: int = -1  # of the first parameter after the last step
    settings: str = ""
    started: Counter[int] = field(default_factory=Counter)  # passes over loaders when it was built
    loaders: frozenset[int] = frozenset()  # that the one before it saw


class RebuiltOptimizersObserver(Observer):
    emits = (OptimizerRebuilt,)

    def prepare(self) -> None:
        self._lines: dict[int, _Line] = {}  # by identity of the first parameter
        self._count = 0
        self._passes: Counter[int] = Counter()

    def optimizer_built(self, built: BuiltOptimizer) -> None:
        parameters = list(parameters_of(built.optimizer))
        if not parameters or not isinstance(parameters[0], Tensor):
            return
        ids = frozenset(map(id, parameters))
        line = self._line_of(parameters[0])
        if line is not None and line.ids == ids:
            self._report(built, line, parameters[0])
        else:
            self._count += 1
            line = _Line(self._count, weakref.ref(parameters[0]), ids, -1, "")
            self._lines[id(parameters[0])] = line
        line.optimizer = self.bus.ordinal("optimizer", built.optimizer)
        line.name, line.kept, line.left = type(built.optimizer).__name__, 0, None
        line.settings, line.started, line.version = _settings(built.optimizer), Counter(self._passes), -1

    def loader_started(self, start: LoaderStart) -> None:
        self._passes[self.bus.ordinal("loader", start.loader)] += 1

    def step_ended(self, call: StepCall) -> None:
        first = next(parameters_of(call.optimizer), None)
        line = None if first is None else self._line_of(first)
        if first is None or line is None or line.optimizer != self.bus.ordinal("optimizer", call.optimizer):
            return
        line.version = tensor_version(first)
        if call.index >= SHORT_LIFE:
            return
        line.kept, line.closure, line.left = len(call.optimizer.state), call.closure, _numbers(first)

    def _line_of(self, first: Tensor) -> _Line | None:
        line = self._lines.get(id(first))
        return line if line is not None and line.first() is first else None

    def _report(self, built: BuiltOptimizer, line: _Line, first: Tensor) -> None:
        steps = self.bus.steps_taken[line.optimizer]
        if not steps or line.reported >= REPORTS:
            return
        line.reported += 1
        goes_on = steps <= SHORT_LIFE and line.left is not None and torch.equal(line.left, _numbers(first))
        untouched = line.version == tensor_version(first)
        alike = line.settings == _settings(built.optimizer)
        seen = self._passes - line.started
        loaders, line.loaders = line.loaders, frozenset(seen)
        facts = (line.number, line.name, steps, line.kept, line.closure, goes_on, untouched, alike)
        most = max(seen.values(), default=0)
        self.emit(OptimizerRebuilt, built.place, *facts, passes=most, same_loaders=loaders == line.loaders)


def _numbers(tensor: Tensor) -> Tensor:
    with torch.no_grad():
        return tensor.detach().reshape(-1)[:SAMPLE].clone()


def _settings(optimizer: Optimizer) -> str:
    groups = [{k: v for k, v in group.items() if k != "params"} for group in optimizer.param_groups]
    return f"{type(optimizer).__name__} {groups}"
