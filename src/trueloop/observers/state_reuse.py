"""State dicts and detached weights that are kept, and used after the weights they share have changed.

`state_dict()`, `detach()` and `numpy()` return the weights themselves, not copies. A few of the tensors are remembered,
weakly, with their version, which is shared with the weight: a later step changes it. An array has no version: of a few
of its numbers the sum is compared.
"""

import weakref
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

import numpy
from torch import Tensor, nn

from trueloop.event import Place, StateReused, StatesKept
from trueloop.measure.tensors import is_plain, memory_of, tensors_in
from trueloop.observers.observer import Observer
from trueloop.taps.calls import AliasCopied, StateLoad, StateSave, StateTaken, StepCall, WeightDetached
from trueloop.torch_private.tensors import tensor_version

__all__ = ["StateReuseObserver"]

KEPT: Final = 3  # states of one line that are alive at a time: while `best` is assigned again there are two
NUMBERS: Final = 64  # of an array
SAMPLE: Final = 4  # first tensors of each state to remember: a loop that averages weights takes one in every step


class _Taken(NamedTuple):
    """One tensor of a state dict."""

    ref: weakref.ref[Tensor]
    version: int
    step: int
    place: Place | None
    module: weakref.ref[nn.Module]
    first: bool = False  # the first of its state
    loads: int = 0  # of other weights into the module before


@dataclass(slots=True)
class _Alias:
    """A detached weight."""

    ref: weakref.ref[Tensor]
    version: int
    step: int
    place: Place
    after: tuple[int, int] = (-1, 0)  # the latest step that was seen, and the version at its end


@dataclass(slots=True)
class _Array:
    """A numpy view of a weight."""

    ref: weakref.ref[Any]
    address: int  # of the weight
    first: float
    step: int
    place: Place
    after: tuple[int, float] = (-1, 0.0)  # the latest step that was seen, and the sum at its end


class StateReuseObserver(Observer):
    emits = (StateReused, StatesKept)

    def prepare(self) -> None:
        self._aliases: dict[int, _Alias] = {}
        self._arrays: dict[int, _Array] = {}
        self._reported: set[Place] = set()
        """Lines whose detached weights were reported."""
        self._taken: dict[int, _Taken] = {}
        self._kept: set[Place | None] = set()
        """Lines whose states were reported."""
        self._loads: weakref.WeakKeyDictionary[nn.Module, int] = weakref.WeakKeyDictionary()
        """Of a model: how often other weights were loaded into it while one of its states was alive."""

    def state_taken(self, taken: StateTaken) -> None:
        module, known = weakref.ref(taken.module), self._taken
        floats = (value for value in taken.state.values() if is_plain(value) and value.is_floating_point())
        for tensor, number in zip(floats, range(SAMPLE), strict=False):
            key = id(tensor)
            ref = weakref.ref(tensor, lambda _, key=key: known.pop(key, None))  # type: ignore[misc]
            loads = self._loads.get(taken.module, 0)
            known[key] = _Taken(ref, tensor_version(tensor), self.bus.step, taken.place, module, number == 0, loads)
        self._look_for_kept(taken.module, KEPT)

    def _look_for_kept(self, module: nn.Module | None, fewest: int) -> None:
        """Are several states of a model alive that were taken by one line, between which its weights changed?"""
        lines: dict[tuple[int, Place | None], dict[int, int]] = {}
        for taken in tuple(self._taken.values()):
            tensor, owner = taken.ref(), taken.module()
            if not taken.first or tensor is None or owner is None or (module is not None and owner is not module):
                continue
            lines.setdefault((id(owner), taken.place), {})[taken.step] = tensor_version(tensor) - taken.version
        for (_, place), states in lines.items():
            earlier = [step for step in states if step < max(states)]
            if len(states) >= fewest and place not in self._kept and all(states[step] for step in earlier):
                self._kept.add(place)
                self.emit(StatesKept, place, len(states), min(states))

    def state_loading(self, load: StateLoad) -> None:
        self._look_for_kept(None, KEPT - 1)
        if isinstance(load.state, dict):
            self._look(load.state.values(), load, load.module)
            self._look_at_aliases(load)
            if self._replaces(load):
                self._loads[load.module] = self._loads.get(load.module, 0) + 1

    def _replaces(self, load: StateLoad) -> bool:
        """Does it change weights of which a state is alive?"""
        for tensor, taken in [(ref, t) for t in tuple(self._taken.values()) if (ref := t.ref()) is not None]:
            if taken.module() is load.module:
                owned = (*load.module.named_parameters(), *load.module.named_buffers())
                names = [name for name, own in owned if is_plain(own) and memory_of(own) == memory_of(tensor)]
                given = [load.state[name] for name in names if is_plain(load.state.get(name))]
                if any(g.shape == tensor.shape and bool((g.to(tensor) != tensor).any()) for g in given):
                    return True
        return False

    def state_saving(self, save: StateSave) -> None:
        self._look(tensors_in(save.value), save)

    # -- detached weights --

    def weight_detached(self, call: WeightDetached) -> None:
        taken = self._taken.get(id(call.tensor))
        of_state = taken is not None and taken.ref() is call.tensor
        if isinstance(call.alias, numpy.ndarray):
            alias = self._aliases.get(id(call.tensor))
            of_weight = of_state or (alias is not None and alias.ref() is call.tensor)
            if of_weight and call.alias.dtype.kind == "f":
                self._remember_array(memory_of(call.tensor), call)
        elif isinstance(call.tensor, nn.Parameter) or of_state:
            key, known = id(call.alias), self._aliases
            ref = weakref.ref(call.alias, lambda _: known.pop(key, None))
            known[key] = _Alias(ref, tensor_version(call.alias), self.bus.step, call.place)

    def _remember_array(self, address: int, call: WeightDetached) -> None:
        key, known = id(call.alias), self._arrays
        ref = weakref.ref(call.alias, lambda _: known.pop(key, None))
        known[key] = _Array(ref, address, _sum(call.alias), self.bus.step, call.place)

    def step_ended(self, call: StepCall) -> None:
        for alias in tuple(self._aliases.values()):
            if (tensor := alias.ref()) is not None:
                alias.after = (self.bus.step + 1, tensor_version(tensor))
        for entry in tuple(self._arrays.values()):
            if (array := entry.ref()) is not None:
                entry.after = (self.bus.step + 1, _sum(array))

    def alias_copied(self, call: AliasCopied) -> None:
        alias = self._outdated(call.alias)
        if alias is not None and memory_of(call.target) == memory_of(call.alias):
            self._report(alias, "copy", call.place, 1, 1)

    def _look_at_aliases(self, load: StateLoad) -> None:
        wanted = self._aliases or self._arrays
        given = [tensor for tensor in load.state.values() if is_plain(tensor)] if wanted else []
        for tensor in given:
            alias = self._outdated(tensor) or self._outdated_array(tensor)
            if alias is not None and _shared([tensor], load.module):
                self._report(alias, "load", load.place, _shared(given, load.module), len(given))
                return

    def _outdated_array(self, tensor: Tensor) -> _Array | None:
        """The array that the tensor was made from, if it is a weight that has changed since, by steps alone."""
        for entry in tuple(self._arrays.values()):
            array = entry.ref()
            if array is None or entry.address != memory_of(tensor) or entry.step >= self.bus.step:
                continue
            now, (step, after) = _sum(array), entry.after
            if now != entry.first and (step != self.bus.step or now == after):
                return entry
        return None

    def _outdated(self, tensor: Tensor) -> _Alias | None:
        """A weight that was detached some steps ago, and has changed since. Not one that was written to after the
        latest step: then its line may mean the weights themselves, and write through it."""
        alias = self._aliases.get(id(tensor))
        if alias is None or alias.ref() is not tensor or alias.step >= self.bus.step:
            return None
        version, (step, after) = tensor_version(tensor), alias.after
        return None if version == alias.version or (step == self.bus.step and version != after) else alias

    def _report(
        self, alias: _Alias | _Array, use: Literal["load", "copy"], place: Place | None, shared: int, of: int
    ) -> None:
        if alias.place not in self._reported:
            self._reported.add(alias.place)
            by: Literal["detach", "numpy"] = "numpy" if isinstance(alias, _Array) else "detach"
            self.emit(StateReused, alias.place, use, place, alias.step, shared, of, by)

    # -- state dicts that are used --

    def _look(self, tensors: Iterable[object], use: StateLoad | StateSave, into: nn.Module | None = None) -> None:
        """Is one of them from an earlier state dict, with a weight that has changed since?"""
        if not self._taken:
            return
        given = [tensor for tensor in tensors if is_plain(tensor)]
        for tensor in given:
            taken = self._taken.get(id(tensor))
            if taken is None or taken.ref() is not tensor:
                continue
            if self.bus.step <= taken.step and not self._exchanged(taken, given, into):
                continue
            if not self._moved(tensor, taken):
                if into is not None and into is taken.module():  # copied onto itself: a new version, the same numbers
                    self._taken[id(tensor)] = taken._replace(version=taken.version + 1)
                continue
            module = taken.module()
            shared = 0 if module is None else _shared(given, module)
            if shared and (into is None or into is module):
                verb: Literal["load", "save"] = "load" if isinstance(use, StateLoad) else "save"
                self.emit(StateReused, taken.place, verb, use.place, taken.step, shared, len(given))
                return

    def _exchanged(self, taken: _Taken, given: list[Tensor], into: nn.Module | None) -> bool:
        """A load of the model's own weights, all of them, after other weights were loaded: it restores nothing."""
        own = into is not None and into is taken.module() and self._loads.get(into, 0) > taken.loads
        return into is not None and own and _shared(given, into) == len(given)

    def _moved(self, tensor: Tensor, taken: _Taken) -> bool:
        """Its version shows it; an optimizer that writes through `.data` keeps the version, but holds the weight."""
        if tensor_version(tensor) != taken.version:
            return True
        module = taken.module()
        held = self.objects.held_ids()
        own = {memory_of(p) for p in module.parameters() if id(p) in held} if module is not None else set()
        return memory_of(tensor) in own


def _sum(array: Any) -> float:
    return float(array.reshape(-1)[:NUMBERS].astype("f8").sum())


def _shared(given: list[Tensor], module: nn.Module) -> int:
    """How many of the tensors are in the memory of the module's own weights."""
    own = {memory_of(t) for t in (*module.parameters(), *module.buffers()) if is_plain(t) and t.numel()}
    return sum(memory_of(tensor) in own for tensor in given)
