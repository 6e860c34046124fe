"""Gradient norms, weight by weight, on some of the steps, when the optimizer steps.

One `_foreach_norm` and one read by the host: a few dozen microseconds, on one step in twenty-five.
"""

import math
from typing import Final
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from trueloop.event import GradientsMeasured, LayerGradient
from trueloop.measure.norms import OWNERS, in_running_order, layer_gradients, norms_read, weights_of
from trueloop.measure.parameters import parameters_of
from trueloop.observers.observer import Observer
from trueloop.taps.calls import BackwardCall, ClipCall, InnerCall, StepCall

__all__ = ["GradientNormsObserver"]

FIRST: Final = 3  # first steps of an optimizer that are measured
EVERY: Final = 25  # then one step in so many
JUMP: Final = 10.0  # a loss this many times its usual size causes an extra measurement
SUSPICIOUS: Final = 30.0  # a gradient this many times the first norms: the next steps are measured too
FOLLOWED: Final = 4  # number of those next steps
MEMORY: Final = 0.9  # weight of the past in the loss's usual size


class GradientNormsObserver(Observer):
    emits = (GradientsMeasured,)

    def prepare(self) -> None:
        self._order: WeakKeyDictionary[nn.Module, int] = WeakKeyDictionary()  # layers in the order of their first run
        self._clipped: set[int] = set()  # optimizers whose gradients were clipped since their last step
        self._usual_loss: float | None = None
        self._jumped = False
        self._first_total: dict[int, float] = {}
        self._follow: dict[int, int] = {}

    # -- when --

    def inner_call_ended(self, call: InnerCall) -> None:
        if isinstance(call.module, OWNERS):
            self._order.setdefault(call.module, len(self._order))

    def clip_ended(self, call: ClipCall) -> None:
        for known, _ in self.objects.living_optimizers():
            if any(id(parameter) in known.ids for parameter in call.parameters):
                self._clipped.add(known.number)

    def backward_started(self, call: BackwardCall) -> None:
        loss = call.tensors[0] if len(call.tensors) == 1 else None
        if type(loss) is not Tensor or not loss.is_cpu or loss.numel() != 1:
            return  # on a device a read makes the host wait
        size, usual = abs(loss.item()), self._usual_loss
        self._jumped = self._jumped or (usual is not None and size > JUMP * usual)
        self._usual_loss = size if usual is None else MEMORY * usual + (1 - MEMORY) * size

    def step_started(self, call: StepCall) -> None:
        number = self.objects.optimizer(call.optimizer).number
        clipped = number in self._clipped
        self._clipped.discard(number)
        follow = self._follow.get(number, 0)
        if call.closure or not (call.index < FIRST or call.index % EVERY == 0 or self._jumped or follow):
            return
        self._jumped = False
        self._follow[number] = max(0, follow - 1)
        if getattr(call.optimizer, "grad_scale", None) is None:  # a fused optimizer that unscales in its own kernel
            self._measure(call, number, clipped)

    # -- what --

    def _measure(self, call: StepCall, number: int, clipped: bool) -> None:
        with_gradient = [p for p in parameters_of(call.optimizer) if isinstance(p, Tensor) and p.grad is not None]
        gradients = [p.grad for p in with_gradient if p.grad is not None]
        if not gradients or any(type(g) is not Tensor or g.layout is not torch.strided for g in gradients):
            return
        norms = dict(zip(map(id, with_gradient), norms_read(gradients), strict=True))
        total = math.hypot(*norms.values())
        first = self._first_total.setdefault(number, total)
        if call.index < FIRST:
            self._first_total[number] = max(first, total)
        elif first < total / SUSPICIOUS and not self._follow[number] and call.index % EVERY == 0:
            self._follow[number] = FOLLOWED
        models = [(known.name, self._layers(model, norms)) for known, model in self.objects.living_models()]
        rate = max((float(group.get("lr", 0.0)) for group in call.optimizer.param_groups), default=0.0)
        for name, layers in [(name, layers) for name, layers in models if layers] or [("", ())]:
            self.emit(GradientsMeasured, call.place, number, call.index, name, layers, total, clipped, rate)

    def _layers(self, model: nn.Module, norms: dict[int, float]) -> tuple[LayerGradient, ...]:
        """Weights with a gradient, in the order in which their layers ran, or else were registered."""
        found = [entry for entry in weights_of(model) if id(entry[2]) in norms]
        found = in_running_order(found, self._order)
        weights = [weight for _, _, weight in found]
        named = [(name, weight.numel()) for name, _, weight in found]
        return layer_gradients(named, [norms[id(weight)] for weight in weights], norms_read(weights))
