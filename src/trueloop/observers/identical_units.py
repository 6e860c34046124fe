"""Layers whose units are all equal and receive equal gradients: they can never become different (`measure.units`).

Checked when an optimizer begins its first, third and sixth step.
"""

from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from trueloop.event import IdenticalUnits
from trueloop.measure.parameters import held_ids
from trueloop.measure.units import LAYERS, LOOKS, EqualUnits, equal_units, is_fed, units_equal_at_ends
from trueloop.observers.observer import Observer
from trueloop.observers.run_objects import KnownModel
from trueloop.taps.calls import InnerCall, ModuleCall, StepCall
from trueloop.torch_private.modules import own_parameters

__all__ = ["IdenticalUnitsObserver"]


class IdenticalUnitsObserver(Observer):
    emits = (IdenticalUnits,)
    rarely = ("module_call_ended",)

    def prepare(self) -> None:
        self._candidates: WeakKeyDictionary[Optimizer, list[tuple[KnownModel, EqualUnits]]] = WeakKeyDictionary()
        self._fed: WeakKeyDictionary[nn.Module, bool] = WeakKeyDictionary()
        """Layers with equal units, and whether they received anything but zeros."""

    # -- what the layers are fed --

    def inner_call_ended(self, call: InnerCall) -> None:
        self._check_input(call.module, call.args)

    def module_call_ended(self, call: ModuleCall) -> None:
        if self.bus.deep:
            self._check_input(call.module, call.args)

    def _check_input(self, module: nn.Module, args: tuple[object, ...]) -> None:
        if self._fed.get(module) or not isinstance(module, LAYERS) or not args or not isinstance(args[0], Tensor):
            return
        # `module.weight` may be computed, and computing it may change it: spectral_norm
        weight = own_parameters(module).get("weight")
        with torch.no_grad():
            if weight is not None and units_equal_at_ends(weight, 0):
                self._fed[module] = bool(is_fed(args))

    # -- looks --

    def step_started(self, call: StepCall) -> None:
        if not call.closure and call.index in LOOKS:
            self._look(call)

    def step_ended(self, call: StepCall) -> None:
        if call.closure and call.index in LOOKS:
            self._look(call)

    def _look(self, call: StepCall) -> None:
        if call.index == LOOKS[0]:
            held = held_ids(call.optimizer)
            models = self.objects.living_models()
            found = [(known, one) for known, model in models for one in equal_units(model, held)]
            self._candidates[call.optimizer] = found
            return
        verdicts = [(known, one, one.look(call.index)) for known, one in self._candidates.pop(call.optimizer, [])]
        waiting = [(known, one) for known, one, verdict in verdicts if verdict == "keep"]
        starved = {known.number for known, one in waiting if self._is_starved(known, one)}
        for known, one, verdict in verdicts:
            if verdict == "report":
                self._emit(known, one, call)
        if call.index != LOOKS[-1]:
            self._candidates[call.optimizer] = waiting
            return
        for known, one in waiting:
            if known.number in starved:
                self._emit(known, one, call)

    def _is_starved(self, known: KnownModel, candidate: EqualUnits) -> bool:
        """The layer received only zeros."""
        model = known.ref()
        return model is not None and self._fed.get(model.get_submodule(candidate.layer)) is False

    def _emit(self, known: KnownModel, candidate: EqualUnits, call: StepCall) -> None:
        model, weight = known.ref(), candidate.ref()
        if model is None or weight is None:
            return
        built = self.objects.optimizer(call.optimizer).place
        step, number = self.bus.step, known.number
        self.bus.emit(
            candidate.compared(model, weight, step=step, place=call.place, number=number, look=call.index, built=built)
        )
