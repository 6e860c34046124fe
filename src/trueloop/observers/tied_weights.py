"""Parameters that two modules share, and whether they still do when an optimizer steps.

A tie is seen when it is made (`decoder.weight = encoder.weight`), or at a model's first call. An assignment or a load
that breaks it is seen too; otherwise one comparison of two objects per tie and step. Most programs have none.
"""

import ast
import weakref
from collections.abc import Iterator
from typing import Final, Literal

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from trueloop.event import Place, TieBroken
from trueloop.observers.observer import Observer
from trueloop.observers.run_objects import KnownModel
from trueloop.taps.calls import ModuleCall, ModuleMove, ParameterSet, StepCall
from trueloop.torch_private.modules import own_parameters
from trueloop.usercode.ownership import layer_place
from trueloop.usercode.source import source_of

__all__ = ["TiedWeightsObserver"]

_By = Literal["assignment", "loading", "moving", "unknown"]
_WORDS: Final = ("untie", "decouple", "unshare")  # a line or function with one of these words breaks the tie on purpose


class _Slot:
    """A name in a module that holds a parameter."""

    __slots__ = ("module", "name")

    def __init__(self, module: nn.Module, name: str) -> None:
        self.module = weakref.ref(module)
        self.name = name

    def holds(self) -> nn.Parameter | None:
        module = self.module()
        return None if module is None else own_parameters(module).get(self.name)

    def is_in(self, module: nn.Module, name: str) -> bool:
        return self.name == name and self.module() is module


class _Tie:
    """Two slots with one parameter, or two parameters with one memory."""

    __slots__ = ("by", "copied", "first", "parted_at", "place", "second", "step")

    def __init__(self, first: _Slot, second: _Slot, place: Place | None, step: int) -> None:
        self.first, self.second, self.place, self.step = first, second, place, step
        self.by: _By = "unknown"
        self.parted_at: Place | None = None
        self.copied = False  # the replacement of the shared parameter had the same values

    def part(self, by: _By, place: Place | None, *, copied: bool = False) -> None:
        self.by, self.parted_at, self.copied = by, place, copied

    def other(self, slot: _Slot) -> _Slot:
        return self.second if slot is self.first else self.first


class TiedWeightsObserver(Observer):
    emits = (TieBroken,)

    def prepare(self) -> None:
        self._at: dict[int, tuple[weakref.ref[nn.Parameter], _Slot]] = {}  # by address: the latest slot of a parameter
        self._ties: list[_Tie] = []
        self._models = 0

    # -- ties --

    def parameter_set(self, given: ParameterSet) -> None:
        if is_lazy(given.parameter) or not given.parameter.numel():
            return
        if self._ties:
            self._check_ties_of(given)
        slot, key, known = _Slot(given.module, given.name), _address(given.parameter), self._at
        there = known.get(key)
        held = None if there is None else there[1].holds()
        # `model.double()` gives a parameter new memory, and the old one to somebody else
        still = held is not None and there is not None and held is there[0]() and _address(held) == key
        if there is not None and still and not _is_same_slot(there[1], slot):
            self._tie(there[1], slot, given.place)
        known[key] = (weakref.ref(given.parameter, lambda _: known.pop(key, None)), slot)

    def _tie(self, first: _Slot, second: _Slot, place: Place | None) -> None:
        if not any(_is_same_slot(tie.first, first) and _is_same_slot(tie.second, second) for tie in self._ties):
            self._ties.append(_Tie(first, second, place, self.bus.step))

    def _check_ties_of(self, given: ParameterSet) -> None:
        """A slot of a tie was assigned: the shared parameter, or a different one."""
        for tie in self._ties:
            for slot in (tie.first, tie.second):
                if slot.is_in(given.module, given.name) and (other := tie.other(slot).holds()) is not None:
                    apart = not _share_memory(other, given.parameter)
                    by: _By = "unknown" if not apart else "loading" if given.loading else "assignment"
                    tie.part(by, given.place if apart else None, copied=apart and _are_equal(other, given.parameter))

    def module_moved(self, move: ModuleMove) -> None:
        for tie in self._ties:
            if tie.by == "unknown" and _are_separate(tie):
                tie.part("moving", move.place)

    def module_call_ended(self, call: ModuleCall) -> None:
        if self._models == len(self.objects.models):
            return
        self._models = len(self.objects.models)
        known = self.objects.model(call.module)
        model = None if known is None else known.ref()
        if model is not None and not isinstance(model, torch.jit.ScriptModule):
            for first, second in _ties_in(model):
                self._tie(_slot(model, first), _slot(model, second), layer_place(model, second))

    # -- what became of them --

    def step_started(self, call: StepCall) -> None:
        if not self._ties:
            return
        broken = [tie for tie in self._ties if tie.first.holds() is not tie.second.holds() and _are_separate(tie)]
        for tie in broken:
            self._ties.remove(tie)
            self._report(tie)

    def _report(self, tie: _Tie) -> None:
        first, second = tie.first.holds(), tie.second.holds()
        home = next(self._models_of(tie), None)
        if home is None or first is None or second is None or first.numel() != second.numel():
            return
        held = self.objects.held_ids()
        trained = [parameter for parameter in (first, second) if id(parameter) in held]
        steps = self.bus.step - tie.step
        if not trained or (len(trained) == 2 and _is_intended(tie, steps)):
            return
        known, names = home
        shape = tuple(first.shape)
        self.emit(TieBroken, tie.parted_at, known.number, known.name, *names, shape, tie.place, steps, tie.by)

    def _models_of(self, tie: _Tie) -> Iterator[tuple[KnownModel, tuple[str, str]]]:
        """Models that contain both modules, with the names of the parameters there."""
        modules = (tie.first.module(), tie.second.module())
        for known, model in self.objects.living_models():
            paths = {id(module): path for path, module in model.named_modules()}
            if all(id(module) in paths for module in modules):
                first, second = (paths[id(module)] for module in modules)
                names = (f"{first}.{tie.first.name}".lstrip("."), f"{second}.{tie.second.name}".lstrip("."))
                yield known, names


def _is_same_slot(one: _Slot, other: _Slot) -> bool:
    return one.name == other.name and one.module() is other.module()


def _slot(model: nn.Module, name: str) -> _Slot:
    path, _, own = name.rpartition(".")
    return _Slot(model.get_submodule(path), own)


def _ties_in(model: nn.Module) -> Iterator[tuple[str, str]]:
    """Names of parameters at the same address, each with the first one there."""
    seen: dict[int, str] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        if not is_lazy(parameter) and parameter.numel():
            first = seen.setdefault(_address(parameter), name)
            if first != name and parameter.numel() == model.get_parameter(first).numel():
                yield first, name


def _address(tensor: Tensor) -> int:
    """The address of its elements; its identity where there is none (meta tensors, shards)."""
    try:
        return tensor.data_ptr() or id(tensor)
    except (NotImplementedError, RuntimeError):  # meta, sparse and opaque tensors have no address
        return id(tensor)


def _share_memory(one: Tensor, other: Tensor) -> bool:
    return one is other or _address(one) == _address(other)


def _are_separate(tie: _Tie) -> bool:
    """Both slots hold parameters of one size at different addresses."""
    first, second = tie.first.holds(), tie.second.holds()
    if first is None or second is None:
        return False
    return first.numel() == second.numel() and not _share_memory(first, second)


def _are_equal(one: Tensor, other: Tensor) -> bool:
    alike = one.shape == other.shape and one.dtype == other.dtype and one.device == other.device and not one.is_meta
    with torch.no_grad():
        return alike and torch.equal(one, other)


def _is_intended(tie: _Tie, steps: int) -> bool:
    """An assignment that copies the shared weight, or names the layer before training has begun; both are known to
    train."""
    place = tie.parted_at
    if tie.by != "assignment" or place is None:
        return False
    statement = source_of(place.path).statement(place.line)
    text = f"{place.function} {'' if statement is None else ast.unparse(statement)}".lower()
    if any(word in text for word in _WORDS) or tie.copied:
        return True
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return steps == 0 and any(isinstance(t, ast.Attribute) and isinstance(t.value, ast.Attribute) for t in targets)
