"""Gradients that are still multiplied by a GradScaler's scale when they are clipped.

Costs nothing without a scaler. With one, a few gradients of each optimizer are marked around a scaled backward;
`unscale_`, a step, or any other write to the gradients removes the mark.
"""

import weakref
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor
from torch.amp import GradScaler

from trueloop.event import ClippedScaled, Place
from trueloop.measure.parameters import parameters_of
from trueloop.observers.observer import Observer
from trueloop.observers.run_objects import KnownOptimizer
from trueloop.taps.calls import BackwardCall, ClipCall, StepCall, UnscaleCall
from trueloop.taps.graph import scaler_of
from trueloop.torch_private.tensors import tensor_version

__all__ = ["UnscaleObserver"]

SAMPLE: Final = 4  # parameters of an optimizer whose gradients are marked
REPORTS: Final = 8  # clips to emit: the rule needs a few, and each one makes the host wait

_Marks = tuple[tuple[int, int], ...]  # identity and version of some gradients


@dataclass(slots=True)
class _Scaled:
    """Gradients of an optimizer from a scaled backward, unchanged since."""

    scaler: weakref.ref[GradScaler]
    place: Place | None
    marks: _Marks
    length: float | None
    """Norm of the smallest, read once a clip is suspicious: a division through `.data` leaves no other trace."""


class UnscaleObserver(Observer):
    emits = (ClippedScaled,)

    def prepare(self) -> None:
        self._scaled: dict[int, _Scaled] = {}  # by the number of the optimizer
        self._before: dict[int, _Marks] = {}
        self._scaler: weakref.ref[GradScaler] | None = None  # of the running backward
        self._suspected = False
        self._reported = 0

    def watching_resumed(self, nothing: None) -> None:
        self._scaled.clear()

    # -- marks --

    def backward_started(self, call: BackwardCall) -> None:
        self._scaler = None
        loss = call.tensors[0] if call.tensors else None
        if not self.bus.scaler_used or self._reported >= REPORTS or not isinstance(loss, Tensor):
            return
        scaler = scaler_of(call.tensors[0])
        if scaler is not None:
            self._scaler = weakref.ref(scaler)
            self._before = {known.number: _marks(known) for known, _ in self.objects.living_optimizers()}

    def backward_ended(self, call: BackwardCall) -> None:
        if self._scaler is None:
            return
        for known, _ in self.objects.living_optimizers():
            marks = _marks(known)
            if marks and marks != self._before.get(known.number):
                length = _length(known) if self._suspected else None
                self._scaled[known.number] = _Scaled(self._scaler, call.place, marks, length)

    def unscale_ended(self, call: UnscaleCall) -> None:
        self._scaled.pop(self.objects.optimizer(call.optimizer).number, None)

    def step_ended(self, call: StepCall) -> None:
        if self._scaled:
            self._scaled.pop(self.objects.optimizer(call.optimizer).number, None)

    # -- clips --

    def clip_started(self, call: ClipCall) -> None:
        if not self._scaled:
            return
        holders = [(known, self._scaled.get(known.number)) for known, _ in self.objects.living_optimizers()]
        for known, scaled in holders:
            if scaled is None or scaled.marks != _marks(known):
                continue
            clean = [other.ids for other, state in holders if state is None]
            own = known.ids.difference(*clean)
            if any(p.grad is not None and id(p) in own for p in call.parameters):
                self._report(call, known, scaled)
                return

    def _report(self, call: ClipCall, known: KnownOptimizer, scaled: _Scaled) -> None:
        self._suspected = True
        scaler = scaled.scaler()
        if scaler is None or scaled.length is None or scaled.length != _length(known):
            return
        self._reported += 1
        self.emit(ClippedScaled, call.place, call.function, call.limit, scaler.get_scale(), known.number, scaled.place)


def _sample(known: KnownOptimizer) -> list[Tensor]:
    """The first gradients of an optimizer."""
    optimizer, found = known.ref(), list[Tensor]()
    for parameter in () if optimizer is None else parameters_of(optimizer):
        if parameter.grad is not None:
            found.append(parameter.grad)
        if len(found) == SAMPLE:
            break
    return found


def _marks(known: KnownOptimizer) -> _Marks:
    return tuple((id(gradient), tensor_version(gradient)) for gradient in _sample(known))


def _length(known: KnownOptimizer) -> float | None:
    gradients = [g for g in _sample(known) if type(g) is Tensor and g.layout is torch.strided]
    with torch.no_grad():
        return min(gradients, key=Tensor.numel).float().norm().item() if gradients else None
