"""Layers that PyTorch does not register, and tensors that are neither parameters nor buffers.

Checked in the first steps of a model, emitted once. Identity (is it among `parameters()`?) and gradients show what is
hidden, so a layer that is unregistered on purpose, frozen or passed to an optimizer by the user, is marked as such.
"""

import ast
import weakref
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple
from weakref import WeakKeyDictionary

from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from trueloop.event import HiddenPart, HiddenPartInTrainMode, LooseTensor, ModelExamined, Place
from trueloop.measure.graph import has_lost_leaves
from trueloop.measure.model import drops, keeps_statistics
from trueloop.measure.tensors import memory_of
from trueloop.observers.observer import Observer
from trueloop.observers.run_objects import KnownModel, unwrapped
from trueloop.taps.calls import ModeChange, ModuleCall, StepCall
from trueloop.torch_private.modules import APPLY, Loss
from trueloop.torch_private.tensors import tensor_version
from trueloop.usercode.names import says_monte_carlo
from trueloop.usercode.ownership import assigned_place, users_classes
from trueloop.usercode.source import Source, is_self_attribute, source_of

__all__ = ["ModelStructureObserver"]

EXAMINE_AFTER: Final = 1  # steps after a model's first call: by then every trained part has had a gradient
DEEPEST: Final = 4  # nesting depth of containers
LONGEST: Final = 256  # items of one container to check: a longer one is data

EVALUATIONS: Final = 2  # calls in eval mode in which a hidden layer was active: one may be a try

_OWN: Final = frozenset(vars(nn.Module()))
"""Attributes of every module: where PyTorch itself keeps parameters, buffers, children and hooks."""
_CONTAINERS: Final = (list, tuple, set, frozenset, deque)
_BY_HAND: Final = frozenset({APPLY, "to", "cuda", "state_dict", "get_extra_state", "__getstate__"})
"""A class with one of these methods handles its own tensors."""
_TAKEN_ALONG: Final = frozenset(
    {"to", "cuda", "cpu", "type_as", "device", "dtype", "shape", "size", "item", "tolist", "dim", "numel", "ndim"}
)  # `self.x.to(inputs)`, `self.x.shape`: uses that are correct on every device

_Mark = tuple[weakref.ref[Tensor], int]  # A tensor at one look: which, and which version of it


class _Part(NamedTuple):
    """What one container attribute hides."""

    modules: list[nn.Module]
    parameters: list[nn.Parameter]
    nested: bool
    mixed: bool

    def tensors(self) -> list[nn.Parameter]:
        inside = [p for module in self.modules for p in module.parameters() if not is_lazy(p)]
        return list({id(p): p for p in (*inside, *self.parameters)}.values())


class _HiddenLayers:
    """The layers of one hidden part that `eval()` of the model does not reach."""

    def __init__(self, part: HiddenPart, modules: list[nn.Module]) -> None:
        self.part = part
        layers = [layer for module in modules for layer in module.modules()]
        self.modules = [weakref.ref(layer) for layer in layers]
        self.dropouts = [weakref.ref(layer) for layer in layers if drops(layer)]
        self.norms = [weakref.ref(layer) for layer in layers if keeps_statistics(layer)]
        self.counted: list[int] = []  # versions of the norms' statistics when the call started
        self.calls = 0

    def counts(self) -> list[int]:
        living = [norm for ref in self.norms if (norm := ref()) is not None]
        counters = [counter for norm in living if isinstance(counter := norm.num_batches_tracked, Tensor)]
        return [tensor_version(counter) for counter in counters]

    def updated(self) -> int:
        """Norm layers that have updated their statistics since the call started."""
        return sum(now != before for now, before in zip(self.counts(), self.counted, strict=False))

    def dropping(self) -> int:
        return sum(layer.training for ref in self.dropouts if (layer := ref()) is not None)


class ModelStructureObserver(Observer):
    emits = (ModelExamined, HiddenPartInTrainMode)

    def prepare(self) -> None:
        self._marks: WeakKeyDictionary[nn.Module, dict[str, _Mark]] = WeakKeyDictionary()  # tensors at the first look
        self._rebuilt: WeakKeyDictionary[nn.Module, set[str]] = WeakKeyDictionary()
        self._examined: set[int] = set()
        self._places: dict[int, Place | None] = {}
        self._unreached: dict[int, list[_HiddenLayers]] = {}  # per model

    def mode_set(self, change: ModeChange) -> None:
        """`train()` of a hidden layer itself: its mode is the user's choice from here on."""
        if change.training:
            for parts in self._unreached.values():
                parts[:] = [part for part in parts if not any(ref() is change.module for ref in part.modules)]

    def module_call_started(self, call: ModuleCall) -> None:
        if self._unreached and not call.training and (known := self.objects.model(call.module)) is not None:
            for part in self._unreached.get(known.number, ()):
                part.counted = part.counts()

    def module_call_ended(self, call: ModuleCall) -> None:
        known = self.objects.model(call.module)
        if known is not None and known.number not in self._examined:
            self._places.setdefault(known.number, call.place)
            self._check_unregistered(unwrapped(call.module))
        elif known is not None and self._unreached.get(known.number) and not (call.training or call.grad):
            self._check_hidden_modes(known, call)

    def _check_hidden_modes(self, known: KnownModel, call: ModuleCall) -> None:
        function = "" if call.place is None else call.place.function
        mixed = any(layer.training for layer in unwrapped(call.module).modules())  # a part is in train mode on purpose
        if call.failed or mixed or any(map(says_monte_carlo, (function, known.name))):
            return
        for part in tuple(self._unreached[known.number]):
            dropping, updated = part.dropping() if call.dropouts else 0, part.updated()
            part.calls += bool(dropping or updated)
            if part.calls == EVALUATIONS:
                self._unreached[known.number].remove(part)
                what = (part.part, dropping, updated, part.calls)
                self.emit(HiddenPartInTrainMode, call.place, known.number, known.name, *what)

    def step_started(self, call: StepCall) -> None:
        if len(self._examined) == len(self.objects.models):
            return
        for known, model in self.objects.living_models():
            if known.number not in self._examined and self.bus.step - known.first_step >= EXAMINE_AFTER:
                self._examined.add(known.number)
                self._examine(known, model)

    def _examine(self, known: KnownModel, model: nn.Module) -> None:
        self._check_unregistered(model)
        hidden, loose = list(self._hidden(model)), tuple(self._unregistered(model))
        self._unreached[known.number] = [_HiddenLayers(part, modules) for part, modules in hidden if modules]
        parts = tuple(part for part, _ in hidden)
        self.emit(ModelExamined, self._places.get(known.number), known.number, known.name, parts, loose)

    # -- layers in plain containers --

    def _hidden(self, root: nn.Module) -> Iterator[tuple[HiddenPart, list[nn.Module]]]:
        registered = {id(p) for _, model in self.objects.living_models() for p in model.parameters()}
        registered |= {id(p) for p in root.parameters()}
        held = self.objects.held_ids()
        for owner in root.modules():
            for attribute, value in vars(owner).items():
                if attribute in _OWN or not isinstance(value, (*_CONTAINERS, Mapping)) or not value:
                    continue
                part = _hidden_in(value, registered)
                place = assigned_place(owner, attribute) if part.tensors() else None
                if place is not None and not _is_hidden_on_purpose(owner, part, place):
                    yield _hidden_part(owner, attribute, value, part, held, place), part.modules

    # -- tensors that belong to nobody --

    def _check_unregistered(self, root: nn.Module) -> None:
        for module in root.modules():
            for attribute, value in vars(module).items():
                if type(value) is Tensor:
                    version = tensor_version(value)
                    mark = self._marks.setdefault(module, {}).setdefault(attribute, (weakref.ref(value), version))
                    if mark[0]() is not value or mark[1] != version:
                        self._rebuilt.setdefault(module, set()).add(attribute)

    def _unregistered(self, root: nn.Module) -> Iterator[LooseTensor]:
        storages = {memory_of(tensor) for tensor in (*root.parameters(), *root.buffers())}
        held = self.objects.held_ids()
        trains = any(id(p) in held for p in root.parameters())
        for module in root.modules():
            for attribute, value in vars(module).items():
                if type(value) is not Tensor or not value.is_floating_point() or not value.dim():
                    continue
                computed = value.grad_fn is not None
                if computed and not has_lost_leaves(value):
                    continue
                if id(value) in held or memory_of(value) in storages or _is_criterion(module):
                    continue
                if value.device.type != "cpu" and not computed:
                    continue  # the user moved it
                if not trains and not value.requires_grad:
                    continue  # a fixed critic: this run saves no weights that go with the tensor
                place, used = _constant_of_class(module, attribute, computed)
                if place is not None:
                    rebuilt = attribute in self._rebuilt.get(module, ())
                    cls, shape, trains_it = type(module).__name__, tuple(value.shape), value.requires_grad
                    yield LooseTensor(cls, attribute, shape, used, rebuilt, trains_it, place, computed)


def _is_criterion(module: nn.Module) -> bool:
    named = type(module).__name__.endswith(("Loss", "Criterion"))
    return (named or isinstance(module, Loss)) and next(module.parameters(), None) is None


def _parts(value: object, depth: int = 1) -> Iterator[tuple[object, int]]:
    """Everything inside a container, with its depth."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, _CONTAINERS):
        for item in list(value)[:LONGEST] if depth <= DEEPEST else ():
            if isinstance(item, (*_CONTAINERS, Mapping)):
                yield from _parts(item, depth + 1)
            else:
                yield item, depth


def _hidden_in(value: object, registered: set[int]) -> _Part:
    part = _Part([], [], False, False)
    for item, depth in _parts(value):
        if isinstance(item, nn.Module) and any(id(p) not in registered for p in item.parameters()):
            part.modules.append(item)
        elif isinstance(item, nn.Parameter) and id(item) not in registered:
            part.parameters.append(item)
        else:
            part = part._replace(mixed=True)
            continue
        part = part._replace(nested=part.nested or depth > 1)
    return part


def _is_hidden_on_purpose(owner: nn.Module, part: _Part, place: Place) -> bool:
    """Hidden on purpose: in eval mode while its owner trains, or one existing module wrapped in a list."""
    if part.modules and owner.training and not any(module.training for module in part.modules):
        return True
    statement = source_of(place.path).statement(place.line)
    value = statement.value if isinstance(statement, (ast.Assign, ast.AnnAssign)) else None
    items: list[Any] = (
        value.elts if isinstance(value, (ast.List, ast.Tuple)) else value.values if isinstance(value, ast.Dict) else []
    )
    return len(items) == 1 and len(part.modules) == 1 and isinstance(items[0], (ast.Name, ast.Attribute))


def _hidden_part(owner: nn.Module, name: str, value: object, part: _Part, held: set[int], place: Place) -> HiddenPart:
    trainable = [p for p in part.tensors() if p.requires_grad]
    kind = next((base.__name__ for base in (dict, *_CONTAINERS) if isinstance(value, base)), "mapping")
    mixed = "mixed " if part.mixed or (part.modules and part.parameters) else ""
    return HiddenPart(
        owner=type(owner).__name__,
        attribute=name,
        container=f"{'nested ' if part.nested else mixed}{kind}",
        kind="module" if part.modules else "parameter",
        items=len(part.modules) + len(part.parameters),
        parameters=sum(p.numel() for p in part.tensors()),
        used=any(p.grad is not None for p in trainable),
        trainable=bool(trainable),
        held=bool(trainable) and all(id(p) in held for p in trainable),
        place=place,
    )


def _constant_of_class(module: nn.Module, attribute: str, computed: bool) -> tuple[Place | None, bool]:
    """(line that creates the tensor in the constructor, is it read elsewhere?). No line for a cache, or a moved one:
    one computed from a parameter was perhaps meant to be moved, and has lost it by that."""
    made: Place | None = None
    used = False
    for source, method, node in _mentions(module, attribute):
        if isinstance(node.ctx, ast.Store):
            statement = source.statement(node.lineno)
            if method.name != "__init__" or statement is None or (_names_device(statement) and not computed):
                return None, False
            made = made or source.place(statement, method.name)
        elif method.name != "__init__":
            above = next(source.parents(node), None)
            used = used or not (isinstance(above, ast.Attribute) and above.attr in _TAKEN_ALONG)
    handled = any(name in vars(cls) for cls, _ in users_classes(module) for name in _BY_HAND)
    return (None, False) if handled else (made, used)


def _mentions(module: nn.Module, attribute: str) -> Iterator[tuple[Source, ast.FunctionDef, ast.Attribute]]:
    """Each `self.attribute` in the methods of the user's classes of a module."""
    for cls, place in users_classes(module):
        source = source_of(place.path)
        written = source.class_named(cls.__name__)
        for method in written.body if written else []:
            if isinstance(method, ast.FunctionDef):
                for node in ast.walk(method):
                    if isinstance(node, ast.Attribute) and is_self_attribute(node, attribute):
                        yield source, method, node


def _names_device(statement: ast.stmt) -> bool:
    """The constructor names the device of the tensor."""
    return any(
        (isinstance(node, ast.keyword) and node.arg == "device")
        or (isinstance(node, ast.Attribute) and node.attr in ("to", "cuda", "device"))
        or (isinstance(node, ast.Name) and node.id == "device")
        for node in ast.walk(statement)
    )
