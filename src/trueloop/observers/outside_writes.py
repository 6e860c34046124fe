"""Weights between two optimizer steps: has something else changed them, and was that a manual gradient step?

Values are compared on a few steps: a write through `.data` leaves no other trace.
"""

import weakref
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor
from torch.optim import Optimizer

from trueloop.event import ChangedWeight, WeightsCompared
from trueloop.measure.tensors import is_plain
from trueloop.observers.observer import Observer
from trueloop.taps.calls import StepCall

__all__ = ["OutsideWritesObserver"]

FIRST: Final = 4  # first steps of each optimizer that are compared; later steps 8, 16, 32
WEIGHTS: Final = 4  # weights to compare, spread over the optimizer's
NUMBERS: Final = 256  # elements of each to compare
FEWEST: Final = 8  # fewest elements of a weight: two factors fit any two numbers
ROUNDING: Final = 4  # units in the last place that rounding can leave between a change and the sum that explains it
RESOLVED: Final = 300  # how much larger than rounding a change must be; below, the previous gradient nearly fits too


@dataclass(slots=True)
class _Weight:
    """One weight after a step."""

    parameter: weakref.ref[Tensor]
    numbers: Tensor
    gradient: Tensor | None
    weight_decay: float


@dataclass(slots=True)
class _AfterStep:
    index: int
    step: int
    weights: list[_Weight]


class OutsideWritesObserver(Observer):
    emits = (WeightsCompared,)

    def prepare(self) -> None:
        self._after_step: dict[int, _AfterStep] = {}  # by the number of the optimizer

    def watching_resumed(self, nothing: None) -> None:
        self._after_step.clear()

    def step_ended(self, call: StepCall) -> None:
        taken = call.index + 1
        if taken > FIRST and taken & (taken - 1):
            return
        number = self.bus.ordinal("optimizer", call.optimizer)
        self._after_step[number] = _AfterStep(call.index, self.bus.step + 1, _chosen(call.optimizer))

    def step_started(self, call: StepCall) -> None:
        if not self._after_step:
            return
        number = self.bus.ordinal("optimizer", call.optimizer)
        after = self._after_step.pop(number, None)
        if after is None or not after.weights or (self.bus.step > after.step and self._shared(number, after)):
            return
        found = [(weight, parameter) for weight in after.weights if (parameter := weight.parameter()) is not None]
        present = _numbers([parameter for _, parameter in found])
        written = [self._compare(w, p, now) for (w, p), now in zip(found, present, strict=True)]
        name, changed = type(call.optimizer).__name__, tuple(weight for weight in written if weight is not None)
        self.emit(WeightsCompared, call.place, number, name, after.index, len(found), changed)

    def _shared(self, number: int, after: _AfterStep) -> bool:
        """Does another optimizer, which may have stepped in between, hold some of these weights?"""
        ids = {id(parameter) for weight in after.weights if (parameter := weight.parameter()) is not None}
        return any(known.ids & ids for known in self.objects.optimizers.values() if known.number != number)

    def _compare(self, weight: _Weight, parameter: Tensor, now: Tensor) -> ChangedWeight | None:
        if now.shape != weight.numbers.shape or torch.equal(now, weight.numbers):
            return None
        change, before = (now - weight.numbers).double(), weight.numbers.double()
        present = None if parameter.grad is None or parameter.grad.is_sparse else _numbers([parameter.grad])[0]
        gradients = [g.double() for g in (weight.gradient, present) if g is not None and g.shape == now.shape]
        fits = [_fit(change, before, gradient) for gradient in (*gradients, torch.zeros_like(before))]
        rest, of_gradient, of_weight, share = min(fits)
        rounding = ROUNDING * torch.finfo(parameter.dtype).eps * float(before.abs().max() + change.abs().max())
        explained = rest <= rounding and float(change.abs().max()) >= RESOLVED * rounding
        name = self.objects.name_of(parameter)
        return ChangedWeight(name, explained, of_gradient, of_weight, share, weight.weight_decay)


def _chosen(optimizer: Optimizer) -> list[_Weight]:
    """Weights that this optimizer updates, as they are now."""
    moved = [
        (parameter, float(group.get("weight_decay", 0.0)))
        for group in optimizer.param_groups
        if float(group.get("lr", 1.0))
        for parameter in group["params"]
        if parameter.grad is not None and parameter.numel() >= FEWEST and parameter.dtype.is_floating_point
    ]
    dense = [(p, decay) for p, decay in moved if is_plain(p) and p.layout is torch.strided]
    spread = dense[:: max(1, -(-len(dense) // WEIGHTS))]
    gradients = [p.grad for p, _ in spread if p.grad is not None and not p.grad.is_sparse]
    taken = iter(_numbers([*(p for p, _ in spread), *gradients]))
    weights = [next(taken) for _ in spread]
    dense_gradient = [next(taken) if p.grad is not None and not p.grad.is_sparse else None for p, _ in spread]
    return [
        _Weight(weakref.ref(p), weight, gradient, decay)
        for (p, decay), weight, gradient in zip(spread, weights, dense_gradient, strict=True)
    ]


def _numbers(tensors: list[Tensor]) -> list[Tensor]:
    """Some elements of each tensor, on the host; in one copy where all are on one device: the host waits once."""
    with torch.no_grad():
        parts = [tensor.detach().reshape(-1)[:NUMBERS] for tensor in tensors]
        if len({(part.device, part.dtype) for part in parts}) != 1 or parts[0].is_cpu:
            return [part.to("cpu", copy=True) for part in parts]
        return list(torch.split(torch.cat(parts).to("cpu"), [len(part) for part in parts]))


def _fit(change: Tensor, weight: Tensor, gradient: Tensor) -> tuple[float, float, float, float]:
    """Fit change = a * gradient + b * weight: (largest residual, a, b, norm of the gradient's part over that of the
    change)."""
    gg, ww, gw = float(gradient @ gradient), float(weight @ weight), float(gradient @ weight)
    gd, wd = float(gradient @ change), float(weight @ change)
    determinant = gg * ww - gw * gw
    if determinant > 1e-9 * gg * ww:
        a, b = (gd * ww - wd * gw) / determinant, (wd * gg - gd * gw) / determinant
    else:  # one of them is zero, or they are parallel
        a, b = (gd / gg, 0.0) if gg else (0.0, wd / ww if ww else 0.0)
    rest = float((change - a * gradient - b * weight).abs().max())
    return rest, a, b, abs(a) * gg**0.5 / float(change.norm())
