"""Layers that ran under no_grad in a training forward, although an optimizer trains them: are they still the initial
ones when the run ends?

Seen in recorded training steps: a layer runs while gradients are disabled, and what is computed from its output enters
a layer that trains. So it is part of the prediction; a target that a loss compares with is not.
"""

import weakref
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor, nn

from trueloop.event import LayersWithoutGraph, Place
from trueloop.measure.parameters import is_initial
from trueloop.measure.tensors import evenly_spaced, is_plain, is_readable, tensors_in
from trueloop.observers.observer import Observer
from trueloop.taps.calls import InnerCall, ModuleCall, OperationCall, ProgramStart, RunEnd, StateLoad
from trueloop.torch_private.modules import own_parameters

__all__ = ["UngraphedLayersObserver"]

LAYERS: Final = 64  # that are remembered
TENSORS: Final = 4096  # of a step that are followed
NUMBERS: Final = 256  # of a weight
STEPS: Final = 20  # between the first look and the end
_Sources = frozenset[int]


@dataclass(slots=True)
class _Layer:
    module: weakref.ref[nn.Module]
    weights: list[tuple[weakref.ref[Tensor], Tensor]]  # a few numbers of each, when it was first seen
    place: Place | None
    step: int
    used: bool = False


class UngraphedLayersObserver(Observer):
    emits = (LayersWithoutGraph,)
    rarely = ("module_call_ended",)

    def prepare(self) -> None:
        self._on = False
        self._held: set[int] = set()
        self._layers: dict[int, _Layer] = {}  # by identity of the module
        self._derived: dict[int, tuple[weakref.ref[Tensor], _Sources]] = {}
        self._loaded: dict[int, weakref.ref[Tensor]] = {}
        self._place: Place | None = None

    def state_loading(self, load: StateLoad) -> None:
        self._loaded |= {id(p): weakref.ref(p) for n, p in load.module.named_parameters() if n in load.state}

    def program_started(self, start: ProgramStart) -> None:
        self._on, self._derived = start.phase == "training", {}
        self._held = self.objects.held_ids() if self._on else set()

    def program_ended(self, start: ProgramStart) -> None:
        self._on, self._derived = False, {}

    def operation_ended(self, call: OperationCall) -> None:
        if not self._on:
            return
        self._place = call.place or self._place
        if self._derived:
            self._follow(list(tensors_in((call.args, call.kwargs), 64)), call.output)

    def inner_call_ended(self, call: InnerCall) -> None:
        if self._on:
            self._ran(call.module, call.args, call.output)

    def module_call_ended(self, call: ModuleCall) -> None:
        if self._on and not call.failed:
            self._ran(call.module, call.args, call.output)

    def _ran(self, module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        outputs = [t for t in tensors_in(output, 8) if t.is_floating_point()]
        if any(t.requires_grad for t in outputs):
            if self._derived:
                sources = self._sources(list(tensors_in(args, 8)))
                trains = sources and any(p.requires_grad for p in module.parameters())
                for key in sources if trains else ():
                    if (layer := self._layers.get(key)) is not None:
                        layer.used = True
            return
        own = [p for p in own_parameters(module).values() if p is not None]  # with these, a graph would show
        if own and outputs and all(p.requires_grad and id(p) in self._held for p in own):
            self._remember(module, own)
            if id(module) in self._layers:
                self._mark(outputs, self._sources(list(tensors_in(args, 8))) | {id(module)})

    def _remember(self, module: nn.Module, own: list[nn.Parameter]) -> None:
        known = self._layers.get(id(module))
        if (known is not None and known.module() is module) or len(self._layers) >= LAYERS:
            return
        if all(is_plain(p) and is_readable(p) and p.is_floating_point() and p.grad is None for p in own):
            weights: list[tuple[weakref.ref[Tensor], Tensor]] = [(weakref.ref(p), _numbers(p)) for p in own]
            self._layers[id(module)] = _Layer(weakref.ref(module), weights, self._place, self.bus.step)

    def _follow(self, given: list[Tensor], output: Any) -> None:
        sources = self._sources(given)
        if sources:
            self._mark([t for t in tensors_in(output, 8) if t.is_floating_point() and not t.requires_grad], sources)

    def _sources(self, tensors: list[Tensor]) -> _Sources:
        found: _Sources = frozenset()
        for tensor in tensors:
            entry = self._derived.get(id(tensor))
            if entry is not None and entry[0]() is tensor:
                found |= entry[1]
        return found

    def _mark(self, tensors: list[Tensor], sources: _Sources) -> None:
        for tensor in tensors:
            if len(self._derived) < TENSORS:
                self._derived[id(tensor)] = (weakref.ref(tensor), sources)

    def run_ended(self, end: RunEnd) -> None:
        idle = [layer for layer in self._layers.values() if layer.used and self._is_untouched(layer)]
        weights = [p for layer in idle for ref, _ in layer.weights if (p := ref()) is not None]
        if not idle or not any(_is_random(layer) for layer in idle) or not all(map(_may_be_initial, idle)):
            return
        names = tuple(filter(None, map(self.objects.name_of, weights)))
        first = min(layer.step for layer in idle)
        self.emit(LayersWithoutGraph, idle[0].place, names, sum(p.numel() for p in weights), self.bus.step - first)

    @torch.no_grad()
    def _is_untouched(self, layer: _Layer) -> bool:
        """Nothing has trained, loaded or written its weights."""
        if self.bus.step - layer.step < STEPS:
            return False
        for ref, before in layer.weights:
            weight = ref()
            loaded = self._loaded.get(id(weight))
            if weight is None or weight.grad is not None or (loaded is not None and loaded() is weight):
                return False
            if not weight.requires_grad or not is_readable(weight) or not torch.equal(_numbers(weight), before):
                return False
        return True


def _is_random(layer: _Layer) -> bool:
    """A matrix with the numbers that torch's layers begin with."""
    matrices = [p for ref, _ in layer.weights if (p := ref()) is not None and p.ndim >= 2]
    return not isinstance(layer.module(), (nn.Embedding, nn.EmbeddingBag)) and any(map(is_initial, matrices))


def _may_be_initial(layer: _Layer) -> bool:
    """A table may hold anything, and a norm layer begins with constants."""
    module = layer.module()
    matrices = [p for ref, _ in layer.weights if (p := ref()) is not None and p.ndim >= 2]
    return isinstance(module, (nn.Embedding, nn.EmbeddingBag)) or all(map(is_initial, matrices))


@torch.no_grad()
def _numbers(tensor: Tensor) -> Tensor:
    return evenly_spaced(tensor.detach().reshape(-1), NUMBERS).to("cpu", copy=True)
