"""Parameters that were frozen after their optimizer was built, and that its steps still change.

An optimizer skips a parameter without a gradient, not one with requires_grad=False: with a gradient of zeros, weight
decay and momentum continue.
"""

import weakref
from collections import Counter
from dataclasses import dataclass
from typing import Final, Literal

import torch
from torch import Tensor
from torch.optim import Optimizer

from trueloop.event import FrozenMoved
from trueloop.measure.parameters import parameters_of
from trueloop.observers.observer import Observer
from trueloop.taps.calls import BuiltOptimizer, StepCall
from trueloop.torch_private.tensors import tensor_version

__all__ = ["FrozenParametersObserver"]

FIRST: Final = 8  # first steps of each optimizer on which its parameters are checked
EVERY: Final = 8  # later, one step in so many
SAMPLE: Final = 256  # elements of a parameter that are compared: decay and momentum change all
MOST: Final = 16  # parameters that are compared on one step
NAMED: Final = 4  # names to list
LOOKS: Final = 8  # steps on which values are compared: without a change by then, there is no decay and no momentum
MEMORY: Final = ("momentum_buffer", "exp_avg")  # names of the average of earlier gradients in optimizer states

_Mark = tuple[weakref.ref[Tensor], int]  # A gradient: which tensor, and which version of it


@dataclass(slots=True)
class _Look:
    """A frozen parameter, before the step."""

    parameter: weakref.ref[Tensor]
    numbers: Tensor
    gradient: Literal["zero", "stale"]


class FrozenParametersObserver(Observer):
    emits = (FrozenMoved,)

    def prepare(self) -> None:
        self._trained: dict[int, set[int]] = {}
        """Per optimizer, which keeps them alive: identities of its parameters that have required a gradient."""
        self._marks: dict[int, dict[int, _Mark]] = {}
        """Per optimizer: gradients of its frozen parameters after its last step."""
        self._looks: dict[int, list[_Look]] = {}
        self._checked: Counter[int] = Counter()  # per optimizer: steps on which values were compared

    def optimizer_built(self, built: BuiltOptimizer) -> None:
        number = self.bus.ordinal("optimizer", built.optimizer)
        self._trained[number] = {id(p) for p in parameters_of(built.optimizer) if p.requires_grad}

    def watching_resumed(self, nothing: None) -> None:
        self._marks.clear()
        self._looks.clear()

    def step_started(self, call: StepCall) -> None:
        if call.index >= FIRST and call.index % EVERY and not self._marks:
            return
        number = self.bus.ordinal("optimizer", call.optimizer)
        if number not in self._trained:  # it was built before the watch began
            self._trained[number] = {id(p) for p in parameters_of(call.optimizer) if p.requires_grad}
        marks = self._marks.pop(number, None)
        if self._checked[number] >= LOOKS:
            return
        if marks:
            self._checked[number] += 1
            self._looks[number] = _looks(call.optimizer, marks)
        if self._frozen(call.optimizer, number):
            self._marks[number] = {}  # filled when the step has ended

    def step_ended(self, call: StepCall) -> None:
        if not self._marks:
            return
        number = self.bus.ordinal("optimizer", call.optimizer)
        if number not in self._marks:
            return
        looks, frozen = self._looks.pop(number, []), self._frozen(call.optimizer, number)
        gradients = {id(p): p.grad for p in frozen if p.grad is not None}
        self._marks[number] = {key: (weakref.ref(grad), tensor_version(grad)) for key, grad in gradients.items()}
        living = [(look, parameter) for look in looks if (parameter := look.parameter()) is not None]
        changes = [(look, parameter, change) for look, parameter in living if (change := _change(look, parameter))]
        if not changes:
            return
        groups = call.optimizer.param_groups
        states = [call.optimizer.state.get(parameter, {}) for _, parameter, _ in changes]
        self.emit(
            FrozenMoved,
            call.place,
            optimizer=number,
            name=type(call.optimizer).__name__,
            parameters=tuple(self.objects.name_of(parameter) for _, parameter, _ in changes[:NAMED]),
            moved=len(changes),
            frozen=len(frozen),
            gradients=changes[0][0].gradient,
            change=max(change for _, _, change in changes),
            decay=max(float(group.get("weight_decay", 0.0)) for group in groups),
            momentum=any(state.get(name) is not None for state in states for name in MEMORY),
        )

    def _frozen(self, optimizer: Optimizer, number: int) -> list[Tensor]:
        """Those that require no gradient now, did before, and still have one."""
        trained = self._trained[number]
        return [p for p in parameters_of(optimizer) if not p.requires_grad and p.grad is not None and id(p) in trained]


def _looks(optimizer: Optimizer, marks: dict[int, _Mark]) -> list[_Look]:
    """Frozen already at the last step, with a gradient set by nobody since. One set by the user is intended."""
    found: list[_Look] = []
    for parameter in parameters_of(optimizer):
        mark, gradient = marks.get(id(parameter)), parameter.grad
        if mark is None or gradient is None or mark[0]() is not gradient or parameter.requires_grad:
            continue
        with torch.no_grad():
            zero = not gradient.is_sparse and not bool(gradient.any())
        if zero or mark[1] == tensor_version(gradient):
            found.append(_Look(weakref.ref(parameter), _numbers(parameter), "zero" if zero else "stale"))
        if len(found) == MOST:
            break
    return found


def _numbers(tensor: Tensor) -> Tensor:
    with torch.no_grad():
        return tensor.detach().reshape(-1)[:SAMPLE].clone()


def _change(look: _Look, parameter: Tensor) -> float:
    now = _numbers(parameter)
    return (now - look.numbers).abs().max().item() if now.shape == look.numbers.shape and now.numel() else 0.0
