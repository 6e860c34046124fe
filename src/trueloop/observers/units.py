"""Units that are one unit: a layer whose rows are all equal and receive equal gradients can never tell them apart.

Looked at when an optimizer begins its first, third and sixth step. Zero weights alone mean nothing (last layers of
residual branches and LoRA's B start so, and part at the first step); that gradients are zero means nothing either (a
gate that is still shut), unless zeros are also all that the layer is fed: then nothing can ever move it.
"""

from __future__ import annotations

import ast
import weakref
from collections.abc import Iterator
from typing import Final
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from trueloop.event import IdenticalUnits, Place
from trueloop.observers.observer import Observer
from trueloop.observers.roster import KnownModel, Roster, birthplace, class_place, parameters_of, users_classes
from trueloop.taps.bus import Bus
from trueloop.taps.calls import InnerCall, ModuleCall, StepCall
from trueloop.torch_private.modules import ConvNd, ConvTransposeNd, own_parameters
from trueloop.usercode.source import called_name, calls_in, source_of

__all__ = ["UnitsObserver"]

FIRST_LOOK: Final = 0
SECOND_LOOK: Final = 2
"""Steps an optimizer has taken when units that are still equal, under gradients that are equal and not zero, will stay
so."""
LAST_LOOK: Final = 5
"""... and when zero gradients are no longer those of a chain of zero-initialised layers, each of which opens the next
at one step."""
TOLERANCE: Final = 1e-4
"""Relative to the largest value: rows of a matrix product may differ in their last bits though they are the same
sums."""
_SETTERS: Final = frozenset({"constant_", "zeros_", "ones_", "fill_", "zero_"})


class _Candidate:
    """A weight whose units were equal at the first look."""

    __slots__ = ("dim", "model", "name", "ref", "unmoved")

    def __init__(self, weight: Tensor, dim: int, model: KnownModel, name: str) -> None:
        self.ref = weakref.ref(weight)
        self.dim = dim
        """The dimension that counts the units."""
        self.model = model
        self.name = name
        self.unmoved = True
        """Its gradient has been zero at every look."""


class UnitsObserver(Observer):
    emits = (IdenticalUnits,)

    def __init__(self, bus: Bus, roster: Roster) -> None:
        super().__init__(bus, roster)
        self._candidates: WeakKeyDictionary[Optimizer, list[_Candidate]] = WeakKeyDictionary()
        self._fed: WeakKeyDictionary[nn.Module, bool] = WeakKeyDictionary()
        """Layers with equal units, and whether anything but zeros has been fed to them."""

    # -- what the layers are fed --

    def inner_call_ended(self, call: InnerCall) -> None:
        self._taste(call.module, call.args)

    def module_call_ended(self, call: ModuleCall) -> None:
        if self.bus.deep:
            self._taste(call.module, call.args)

    def _taste(self, module: nn.Module, args: tuple[object, ...]) -> None:
        if (
            self._fed.get(module)
            or not isinstance(module, (nn.Linear, ConvNd))
            or not args
            or not isinstance(args[0], Tensor)
        ):
            return
        weight = own_parameters(module).get(
            "weight"
        )  # as an attribute it may be computed, and computing it may change it: spectral_norm
        with torch.no_grad():
            if weight is not None and _equal_at_the_ends(weight, 0):
                self._fed[module] = bool(args[0].any())

    # -- looks --

    def step_started(self, call: StepCall) -> None:
        if not call.closure and call.index in (FIRST_LOOK, SECOND_LOOK, LAST_LOOK):
            self._look(call)

    def step_ended(self, call: StepCall) -> None:
        if call.closure and call.index in (FIRST_LOOK, SECOND_LOOK, LAST_LOOK):
            self._look(call)

    def _look(self, call: StepCall) -> None:
        with torch.no_grad():
            if call.index == FIRST_LOOK:
                self._candidates[call.optimizer] = list(self._equal_now(call.optimizer))
                return
            waiting = self._candidates.get(call.optimizer, [])
            self._candidates[call.optimizer] = [one for one in waiting if self._still_equal(one, call)]
            if call.index == LAST_LOOK:
                self._tell_stuck(self._candidates.pop(call.optimizer), call)

    def _equal_now(self, optimizer: Optimizer) -> Iterator[_Candidate]:
        held = set(map(id, parameters_of(optimizer)))
        for known, model in self.roster.living_models():
            if isinstance(model, torch.jit.ScriptModule):
                continue  # it does not say what its layers are
            for name, weight in model.named_parameters():
                if id(weight) not in held or weight.grad is None or weight.dim() < 2 or not weight.is_floating_point():
                    continue
                held.discard(id(weight))
                for dim in _dims_of_units(model, name, weight):
                    if (
                        _equal_at_the_ends(weight, dim)
                        and _units_equal(weight, dim, 0.0)
                        and _units_equal(weight.grad, dim)
                    ):
                        candidate = _Candidate(weight, dim, known, name)
                        candidate.unmoved = not bool(weight.grad.any())
                        yield candidate
                        break

    def _still_equal(self, candidate: _Candidate, call: StepCall) -> bool:
        """Keep looking at it? Equal units under equal gradients are told at once."""
        weight = candidate.ref()
        if weight is None or weight.grad is None or weight.grad.is_sparse:
            return False
        if not _units_equal(weight, candidate.dim) or not _units_equal(weight.grad, candidate.dim):
            return False
        if bool(weight.grad.any()):
            if candidate.unmoved and call.index == LAST_LOOK:
                return False  # it has only just begun to move
            self._tell(candidate, weight, call)
            return False
        return candidate.unmoved

    def _tell_stuck(self, stuck: list[_Candidate], call: StepCall) -> None:
        """Zero gradients at every look: stuck for good in a model where one of these layers is fed nothing but
        zeros."""
        starved = {one.model.number for one in stuck if self._is_starved(one)}
        for one in stuck:
            weight = one.ref()
            if one.unmoved and weight is not None and one.model.number in starved:
                self._tell(one, weight, call)

    def _is_starved(self, candidate: _Candidate) -> bool:
        model = candidate.model.ref()
        return model is not None and self._fed.get(model.get_submodule(candidate.name.rpartition(".")[0])) is False

    def _tell(self, candidate: _Candidate, weight: Tensor, call: StepCall) -> None:
        model = candidate.model.ref()
        optimizer = self.roster.optimizer(call.optimizer)
        self.bus.emit(
            IdenticalUnits(
                step=self.bus.step,
                place=call.place,
                model=candidate.model.number,
                name=candidate.model.name,
                parameter=candidate.name,
                units=weight.shape[candidate.dim],
                value=float(weight.reshape(-1)[0]),
                gradient_norm=0.0 if weight.grad is None else float(weight.grad.norm()),
                steps=call.index + 1,
                defined=None if model is None else _where_set(model, candidate.name, optimizer.place),
            )
        )


def _dims_of_units(model: nn.Module, name: str, weight: Tensor) -> tuple[int, ...]:
    """The dimension that counts the units of a layer; for a matrix of the user's own, whichever of the two it may
    be."""
    owner = model.get_submodule(name.rpartition(".")[0])
    if isinstance(owner, ConvTransposeNd):
        return (1,) if weight.shape[1] > 1 else ()
    if isinstance(owner, (nn.Linear, ConvNd)):
        return (0,) if weight.shape[0] > 1 else ()
    if weight.dim() == 2 and min(weight.shape) > 1 and next(users_classes(owner), None) is not None:
        return (0, 1)
    return ()


def _equal_at_the_ends(weight: Tensor, dim: int) -> bool:
    """The first and the last unit: nearly always enough to say no."""
    return weight.device.type != "meta" and torch.equal(weight.select(dim, 0), weight.select(dim, -1))


def _units_equal(values: Tensor, dim: int, tolerance: float = TOLERANCE) -> bool:
    if values.is_sparse:
        return False
    largest = values.abs().max()
    apart = (values - values.narrow(dim, 0, 1)).abs().max()
    return bool(torch.isfinite(largest) & (apart <= tolerance * largest))


def _where_set(model: nn.Module, name: str, optimizer_place: Place | None) -> Place | None:
    """The user's line that sets the weight to a constant, if there is one such line; else the line that makes the
    layer."""
    path = name.rpartition(".")[0]
    made = birthplace(model, path or name)
    if next(users_classes(model.get_submodule(path)), None) is not None:
        return birthplace(model, name)  # a parameter of the user's own: made and set in one line
    places = [class_place(type(module)) for module in model.modules()]
    files = dict.fromkeys(place.path for place in (*places, optimizer_place) if place is not None)
    setters = [(file, call.lineno, source_of(file).text(call)) for file in files for call in _setters_in(file)]
    own = path.rpartition(".")[2]
    named = [entry for entry in setters if own and own in entry[2]]
    for found in (named, setters):
        if len({entry[:2] for entry in found}) == 1:
            return Place(found[0][0], found[0][1])
    return made


def _setters_in(file: str) -> Iterator[ast.Call]:
    """Calls that fill a weight with one value."""
    source = source_of(file)
    for call in calls_in(source.tree):
        text = source.text(call)
        if called_name(call) in _SETTERS and "bias" not in text and "grad" not in text:
            yield call
