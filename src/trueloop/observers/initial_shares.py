"""A copy of a trained model that is evaluated in the end: how much of it is still the initial weights?

The weights of the copy are compared with a few numbers of the trained model as it began and as it is now, so it does
not matter how, where and how often the copy is updated.
"""

import weakref
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor, nn

from trueloop.event import CopyMostlyInitial, Place
from trueloop.measure.parameters import held_ids
from trueloop.measure.weight_samples import WeightSample, weight_sample
from trueloop.observers.observer import Observer
from trueloop.observers.run_objects import unwrapped
from trueloop.taps.calls import ModuleCall, RunEnd, StateLoad, StepCall

__all__ = ["InitialSharesObserver"]

MODELS: Final = 8  # trained ones
LOOKS: Final = 128  # at one copy: with more, it is called in every step, as a target network is
FIRST_STEP: Final = 50
FEWEST: Final = 64  # numbers that are compared


@dataclass(slots=True)
class _Trained:
    model: weakref.ref[nn.Module]
    name: str
    initial: WeightSample
    loaded: bool = False


@dataclass(slots=True)
class _Copy:
    looks: int = 0
    step: int = -1
    sample: Tensor | None = None
    states: int = 0  # at this step
    found: CopyMostlyInitial | None = None


class InitialSharesObserver(Observer):
    emits = (CopyMostlyInitial,)

    def prepare(self) -> None:
        self._trained: dict[int, _Trained] = {}
        self._copies: dict[int, _Copy] = {}

    def step_started(self, call: StepCall) -> None:
        if call.index or len(self._trained) >= MODELS:
            return
        held = held_ids(call.optimizer)
        for known, model in self.objects.living_models():
            if known.number not in self._trained and any(id(p) in held for p in model.parameters()):
                sample = weight_sample(dict(model.named_parameters()))
                self._trained[known.number] = _Trained(weakref.ref(model), known.name, sample)

    def state_loading(self, load: StateLoad) -> None:
        for trained in self._trained.values():
            trained.loaded = trained.loaded or trained.model() is load.module

    def module_call_started(self, call: ModuleCall) -> None:
        if call.grad or not self._trained or self.bus.step < FIRST_STEP:
            return
        known = self.objects.model(call.module)
        if known is None or known.number in self._trained:
            return
        copy = self._copies.setdefault(known.number, _Copy())
        if copy.looks >= LOOKS:
            copy.found = None
            return
        self._look(copy, unwrapped(call.module), known.name, call.place)

    def _look(self, copy: _Copy, module: nn.Module, name: str, place: Place | None) -> None:
        own = weight_sample(dict(module.named_parameters()))
        numbers = torch.cat([*own.values()]) if own else None
        same = copy.sample is not None and numbers is not None and torch.equal(copy.sample, numbers)
        if copy.step == self.bus.step and same:
            return
        copy.looks += 1
        copy.states = copy.states + 1 if copy.step == self.bus.step else 1
        copy.step, copy.sample, copy.found = self.bus.step, numbers, None
        for trained in self._trained.values():
            model = trained.model()
            if model is not None and not trained.loaded and own.keys() == trained.initial.keys():
                copy.found = self._compared(own, trained, weight_sample(dict(model.named_parameters())), name, place)

    def _compared(
        self, own: WeightSample, trained: _Trained, final: WeightSample, name: str, place: Place | None
    ) -> CopyMostlyInitial | None:
        if own.keys() != final.keys() or any(own[key].shape != final[key].shape for key in own):
            return None
        one, now, first = (torch.cat([sample[key] for key in own]) for sample in (own, final, trained.initial))
        way, gap = first - now, one - now
        if len(one) < FEWEST or not bool(way.any()) or not bool(gap.any()):
            return None
        share = float(gap @ way) / float(way @ way)
        apart = float((gap - share * way).norm() / gap.norm())
        moved = float(way.norm() / now.norm())
        return CopyMostlyInitial(self.bus.step, place, name, trained.name, share, apart, moved, len(own),
                                 self.bus.step, 1)  # fmt: skip

    def run_ended(self, end: RunEnd) -> None:
        for copy in self._copies.values():
            found = copy.found
            if found is not None and copy.step == self.bus.step:
                self.emit(CopyMostlyInitial, found.place, found.model, found.trained, found.initial, found.apart,
                          found.moved, found.weights, found.steps, copy.states)  # fmt: skip
