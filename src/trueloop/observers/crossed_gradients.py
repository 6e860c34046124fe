"""Several optimizers in one iteration: does a step use gradients that the loss of another optimizer left behind?

In the first steps, the gradients of a few parameters of each optimizer are compared before and after every backward.
"""

import weakref
from dataclasses import dataclass, field
from math import hypot
from typing import Final

import torch
from torch import Tensor
from torch.optim import Optimizer

from trueloop.event import CrossedGradients, Place
from trueloop.measure.parameters import parameters_of
from trueloop.measure.tensors import is_plain, is_readable
from trueloop.observers.observer import Observer
from trueloop.taps.calls import BackwardCall, StepCall

__all__ = ["CrossedGradientsObserver"]

STEPS: Final = 40  # of all optimizers together
OPTIMIZERS: Final = 6
SAMPLE: Final = 3  # parameters of each optimizer
NUMBERS: Final = 512  # of each gradient


@dataclass(slots=True)
class _Reach:
    """A backward whose gradients lie in the parameters of an optimizer."""

    call: int
    place: Place | None
    before: float  # norm of what lay there
    added: float  # norm of what it added


@dataclass(slots=True)
class _Holder:
    """One optimizer."""

    name: str
    number: int
    sample: list[weakref.ref[Tensor]]
    reaches: list[_Reach] = field(default_factory=list)  # since its gradients were cleared
    before: list[Tensor | None] = field(default_factory=list)
    used: frozenset[int] = frozenset()  # backward calls whose gradients its last step used
    places: frozenset[Place | None] = frozenset()  # of backward calls that any step of it used


class CrossedGradientsObserver(Observer):
    emits = (CrossedGradients,)

    def prepare(self) -> None:
        self._holders: dict[int, _Holder] = {}
        self._also: dict[int, set[int]] = {}  # by backward call: the optimizers that it reached

    def backward_started(self, call: BackwardCall) -> None:
        if self.bus.step >= STEPS or call.inside_step:
            self._holders.clear()
            return
        living = list(self.objects.living_optimizers())
        if not 2 <= len(living) <= OPTIMIZERS:
            self._holders.clear()
            return
        for known, optimizer in living:
            if known.number not in self._holders:
                self._holders[known.number] = _Holder(known.name, known.number, _sample(optimizer))
        for holder in self._holders.values():
            holder.before = _gradients(holder)
            if all(gradient is None or not bool(gradient.any()) for gradient in holder.before):
                holder.reaches = []

    def backward_ended(self, call: BackwardCall) -> None:
        for holder in self._holders.values():
            before, after = holder.before, _gradients(holder)
            holder.before = []
            if len(before) == len(after) and any(_differ(a, b) for a, b in zip(before, after, strict=True)):
                holder.reaches.append(_Reach(call.number, call.place, _norm(before), _norm(_difference(after, before))))
                self._also.setdefault(call.number, set()).add(holder.number)

    def step_started(self, call: StepCall) -> None:
        known = self.objects.optimizer(call.optimizer)
        mine = self._holders.get(known.number)
        if mine is None or call.closure:
            return
        if len(mine.reaches) > 1 and not all(g is None or not bool(g.any()) for g in _gradients(mine)):
            for other in self._holders.values():
                self._compare(call, mine, other)
        mine.used = frozenset(reach.call for reach in mine.reaches)
        mine.places |= {reach.place for reach in mine.reaches}

    def _compare(self, call: StepCall, mine: _Holder, other: _Holder) -> None:
        own = mine.reaches[-1]
        foreign = [reach for reach in mine.reaches[:-1] if reach.call in other.used and reach.call not in mine.used]
        through_both = other.number in self._also.get(own.call, ())
        if other is mine or not foreign or not through_both or own.call in other.used or own.place in other.places:
            return
        if foreign[-1].place == own.place:
            return
        names = [self.objects.name_of(p) for ref in mine.sample if (p := ref()) is not None]
        self.emit(CrossedGradients, call.place, mine.name, other.name, mine.number, names[0] if names else "",
                  own.place, foreign[-1].place, own.before, own.added)  # fmt: skip


def _sample(optimizer: Optimizer) -> list[weakref.ref[Tensor]]:
    tensors = [p for p in parameters_of(optimizer) if is_plain(p) and is_readable(p)]
    stride = max(1, -(-len(tensors) // SAMPLE))
    return [weakref.ref(tensor) for tensor in tensors[::stride]]


@torch.no_grad()
def _gradients(holder: _Holder) -> list[Tensor | None]:
    found: list[Tensor | None] = []
    for ref in holder.sample:
        parameter = ref()
        gradient = None if parameter is None else parameter.grad
        readable = gradient is not None and not gradient.is_sparse and is_plain(gradient)
        found.append(gradient.detach().reshape(-1)[:NUMBERS].clone() if gradient is not None and readable else None)
    return found


def _differ(one: Tensor | None, other: Tensor | None) -> bool:
    if one is None or other is None or one.shape != other.shape:
        return other is not None and bool(other.any())
    return not torch.equal(one, other)


def _difference(after: list[Tensor | None], before: list[Tensor | None]) -> list[Tensor | None]:
    pairs = zip(after, before, strict=True)
    return [a if a is None or b is None or a.shape != b.shape else a - b for a, b in pairs]


def _norm(gradients: list[Tensor | None]) -> float:
    return hypot(*(float(gradient.double().norm()) for gradient in gradients if gradient is not None))
