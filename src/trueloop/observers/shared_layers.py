"""Entries of a container that are one and the same layer: are they given one and the same input?

Such calls can only give equal results, unless something random happens inside. Compared on deep steps, in training.
"""

import weakref
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import torch
from torch import Tensor, nn

from trueloop.event import LayersShared
from trueloop.measure.tensors import evenly_spaced, is_plain, is_readable, tensors_in
from trueloop.observers.observer import Observer
from trueloop.observers.run_objects import unwrapped
from trueloop.taps.calls import InnerCall, ModuleCall
from trueloop.torch_private.modules import own_modules
from trueloop.torch_private.tensors import tensor_version
from trueloop.usercode.ownership import layer_place

__all__ = ["SharedLayersObserver"]

NUMBERS: Final = 64  # elements of an output
CALLS: Final = 3  # calls of a model that are compared
MODELS: Final = 16  # that are examined
_CONTAINERS: Final = (nn.ModuleList, nn.ModuleDict, nn.Sequential)


class _Shared(NamedTuple):
    """A layer that several entries of one container name."""

    container: str
    entries: int


@dataclass(slots=True)
class _Calls:
    """Of one shared layer, in one call of its model."""

    given: tuple[weakref.ref[Tensor], int] | None = None  # its first input, and the version of it
    output: Tensor | None = None  # a few numbers
    equal: int = 0  # calls with that input, the first one included
    others: int = 0


@dataclass(slots=True)
class _Model:
    shared: dict[int, _Shared]  # by identity of the layer
    seen: int = 0
    equal: dict[int, int] = field(default_factory=dict)  # calls of the model in which all calls of the layer were equal


class SharedLayersObserver(Observer):
    emits = (LayersShared,)
    rarely = ("module_call_started", "module_call_ended")

    def prepare(self) -> None:
        self._models: dict[int, _Model] = {}
        self._current: _Model | None = None
        self._calls: dict[int, _Calls] = {}

    def module_call_started(self, call: ModuleCall) -> None:
        self._current, self._calls = None, {}
        known = self.objects.model(call.module) if self.bus.deep and call.grad else None
        if known is None:
            return
        model = self._models.get(known.number)
        if model is None and len(self._models) < MODELS:
            model = self._models[known.number] = _Model(_shared_layers(unwrapped(call.module)))
        if model is not None and model.shared and model.seen < CALLS:
            self._current = model

    @torch.no_grad()
    def inner_call_ended(self, call: InnerCall) -> None:
        if self._current is None or id(call.module) not in self._current.shared:
            return
        given, output = next(tensors_in(call.args, 8), None), next(tensors_in(call.output, 8), None)
        if given is None or output is None or not is_plain(output) or not is_readable(output):
            return
        calls = self._calls.setdefault(id(call.module), _Calls())
        numbers = evenly_spaced(output.detach().reshape(-1), NUMBERS)
        if calls.given is None:
            calls.given, calls.output, calls.equal = (weakref.ref(given), tensor_version(given)), numbers.clone(), 1
            return
        ref, version = calls.given
        same = ref() is given and version == tensor_version(given) and calls.output is not None
        if same and calls.output is not None and torch.equal(calls.output, numbers):
            calls.equal += 1
        else:
            calls.others += 1

    def module_call_ended(self, call: ModuleCall) -> None:
        model, self._current = self._current, None
        known = self.objects.model(call.module)
        if model is None or known is None:
            return
        model.seen += 1
        for key, calls in self._calls.items():
            if calls.others == 0 and calls.equal >= model.shared[key].entries:
                model.equal[key] = model.equal.get(key, 0) + 1
        self._calls = {}
        if model.seen == CALLS:
            root = unwrapped(call.module)
            layers = {id(module): module for module in root.modules()}
            for key, count in model.equal.items():
                if count == CALLS and (layer := layers.get(key)) is not None:
                    shared = model.shared[key]
                    place = layer_place(root, f"{shared.container}.0") or call.place
                    size = sum(p.numel() for p in layer.parameters())
                    self.emit(LayersShared, place, known.name, shared.container, type(layer).__name__,
                              shared.entries, size)  # fmt: skip


def _shared_layers(root: nn.Module) -> dict[int, _Shared]:
    """Layers with parameters that are several entries of a container."""
    found: dict[int, _Shared] = {}
    for path, module in root.named_modules():
        if isinstance(module, _CONTAINERS):
            entries = list(own_modules(module).values())
            for layer in {id(entry): entry for entry in entries if entry is not None}.values():
                count = sum(entry is layer for entry in entries)
                if count > 1 and next(layer.parameters(), None) is not None:
                    found.setdefault(id(layer), _Shared(path, count))
    return found
