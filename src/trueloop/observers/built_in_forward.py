"""Layers that a forward builds again in every call. Seen on deep steps: a module that runs inside a model, was not part
of it when the call started, and is gone when the next call reaches the same line."""

import ast
import weakref
from dataclasses import dataclass
from typing import Final, Literal

from torch import nn
from torch.nn.modules.batchnorm import BatchNorm1d, BatchNorm2d, BatchNorm3d, SyncBatchNorm

from trueloop.event import LayerBuiltInForward, Place
from trueloop.observers.observer import Observer
from trueloop.taps.calls import InnerCall, ModuleCall, RunEnd
from trueloop.taps.place import here
from trueloop.torch_private.modules import DropoutNd
from trueloop.usercode.source import called_name, calls_in, source_of

__all__ = ["BuiltInForwardObserver"]

NORMS: Final = (BatchNorm1d, BatchNorm2d, BatchNorm3d, SyncBatchNorm)
COPIES: Final = ("deepcopy", "copy", "clone", "functional_call", "clone_module")
"""A file that copies modules may run a new copy in each call on purpose (an inner loop, a hypernetwork)."""

Kind = Literal["weights", "statistics", "dropout"]


@dataclass(slots=True)
class _Line:
    """One line of a forward that runs a layer from outside the model."""

    model: int
    name: str
    layer: str
    kind: Kind
    parameters: int
    latest: weakref.ref[nn.Module]
    rebuilt: int = 0  # calls that found the layer of the call before gone, and a new one
    kept: bool = False  # the layer of an earlier call was still there: a cache
    active_in_eval: int = 0  # calls in eval mode that dropped values although no part of the model does


class BuiltInForwardObserver(Observer):
    emits = (LayerBuiltInForward,)
    safe_on_shards = True

    def prepare(self) -> None:
        self._parts: set[int] | None = None  # ids of the running model's modules, at the start of its call
        self._seen: list[tuple[nn.Module, Place]] = []  # in the running call, outermost only
        self._lines: dict[tuple[int, Place], _Line] = {}

    def module_call_started(self, call: ModuleCall) -> None:
        watched = self.bus.deep and call.training and call.grad and not call.compiled
        self._parts = {id(module) for module in call.module.modules()} if watched else None
        self._seen.clear()

    def inner_call_ended(self, call: InnerCall) -> None:
        if self._parts is None or id(call.module) in self._parts or _kind(call.module) is None:
            return
        place = here()
        if place is not None:
            inside = {id(module) for module in call.module.modules()}
            self._seen = [(module, at) for module, at in self._seen if id(module) not in inside]
            self._seen.append((call.module, place))

    def module_call_ended(self, call: ModuleCall) -> None:
        if not call.training and call.dropouts and self._lines:
            self._evaluated(call)
        seen, self._seen, self._parts = self._seen, [], None
        known = self.objects.model(call.module) if seen and not call.failed else None
        if known is None:
            return
        for module, place in seen:
            kind = _kind(module)
            line = self._lines.get((known.number, place))
            if line is None and kind is not None:
                weights = sum(p.numel() for p in module.parameters())
                facts = (known.number, known.name, type(module).__name__, kind, weights)
                self._lines[known.number, place] = _Line(*facts, weakref.ref(module))
            elif line is not None:
                before = line.latest()
                line.rebuilt += before is None
                line.kept |= before is not None
                line.latest = weakref.ref(module)

    def _evaluated(self, call: ModuleCall) -> None:
        known = self.objects.model(call.module)
        if known is None or any(isinstance(part, DropoutNd) and part.training for part in call.module.modules()):
            return
        for (number, _), line in self._lines.items():
            line.active_in_eval += number == known.number and line.kind == "dropout"

    def run_ended(self, end: RunEnd) -> None:
        for (_, place), line in self._lines.items():
            if line.rebuilt and not line.kept and _is_built(place, line):
                facts = (line.model, line.name, line.layer, line.kind, line.parameters)
                self.emit(LayerBuiltInForward, place, *facts, line.rebuilt + 1, line.active_in_eval)


def _kind(module: nn.Module) -> Kind | None:
    """What is lost when this module is built again; None: nothing (an activation, frozen weights)."""
    parts = list(module.modules())
    if any(parameter.requires_grad and parameter.is_leaf for parameter in module.parameters()):
        return "weights"
    if any(isinstance(part, NORMS) and part.track_running_stats for part in parts):
        return "statistics"
    return "dropout" if any(isinstance(part, DropoutNd) and part.p > 0 and part.training for part in parts) else None


def _is_built(place: Place, line: _Line) -> bool:
    """Does the function around this line build the layer, and not only while training? Or, if that happens elsewhere,
    does the file copy no modules?"""
    source = source_of(place.path)
    functions = [node for node in ast.walk(source.tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    around = [node for node in functions if node.lineno <= place.line <= (node.end_lineno or node.lineno)]
    if not around:
        return False
    function = max(around, key=lambda node: node.lineno)
    guarded = line.kind == "dropout" and "training" in ast.unparse(function)
    built = any(called_name(call) == line.layer for call in calls_in(function))
    copied = any(called_name(call) in COPIES for call in calls_in(function if built else source.tree))
    return not guarded and not copied
