"""The models and optimizers of a run, and the names of parameters. Weak references throughout."""

import sys
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, field

from torch import Tensor, nn
from torch.optim import Optimizer

from trueloop.event import Place
from trueloop.measure.parameters import parameters_of
from trueloop.taps.bus import Bus
from trueloop.taps.calls import BuiltOptimizer, ModuleCall, StepCall
from trueloop.torch_private.modules import WRAPPED_MODULE, own_modules
from trueloop.torch_private.tensors import is_shard

__all__ = ["KnownModel", "KnownOptimizer", "RunObjects", "unwrapped"]


@dataclass(slots=True)
class KnownModel:
    """A module with parameters that was called from outside any other module."""

    ref: weakref.ref[nn.Module]
    number: int
    name: str
    first_step: int


@dataclass(slots=True)
class KnownOptimizer:
    ref: weakref.ref[Optimizer]
    number: int
    name: str
    place: Place | None  # where it was built; None if that was before the watch began
    steps: int = 0
    ids: frozenset[int] = field(default_factory=frozenset)  # identities of its parameters at its last step


class RunObjects:
    """Subscribes before all observers, so that it is up to date for them."""

    safe_on_shards = True

    def __init__(self, bus: Bus) -> None:
        self.bus = bus
        self.models: dict[int, KnownModel] = {}
        self.optimizers: dict[int, KnownOptimizer] = {}
        self._names: dict[int, tuple[weakref.ref[Tensor], str]] = {}
        self._last_lookup: tuple[weakref.ref[nn.Module], KnownModel | None] | None = None
        """The last lookup of a model: several observers make the same one at every call."""
        self._last_optimizer: tuple[weakref.ref[Optimizer], KnownOptimizer] | None = None

    # -- moments --

    def module_call_started(self, call: ModuleCall) -> None:
        latest = self._last_lookup
        if latest is not None and latest[1] is not None and latest[0]() is call.module:
            return  # known, as at nearly every call
        module = unwrapped(call.module)
        number = self.bus.ordinal("model", module)
        if number not in self.models and next(module.parameters(), None) is not None:
            self.models[number] = KnownModel(weakref.ref(module), number, type(module).__name__, self.bus.step)
            self._last_lookup = None
            self.bus.allow_deep_steps()
            self._find_shards(module.parameters())

    def optimizer_built(self, built: BuiltOptimizer) -> None:
        self._know(built.optimizer, built.place)

    def step_started(self, call: StepCall) -> None:
        known = self.optimizer(call.optimizer)
        known.ids = frozenset(map(id, parameters_of(call.optimizer))) if call.index % 50 < 8 else known.ids

    def step_ended(self, call: StepCall) -> None:
        self.optimizer(call.optimizer).steps += 1

    def _know(self, optimizer: Optimizer, place: Place | None) -> KnownOptimizer:
        number = self.bus.ordinal("optimizer", optimizer)
        if number not in self.optimizers:
            ids = frozenset(map(id, parameters_of(optimizer)))
            name = type(optimizer).__name__
            self._find_shards(parameters_of(optimizer))
            self.optimizers[number] = KnownOptimizer(weakref.ref(optimizer), number, name, place, ids=ids)
        return self.optimizers[number]

    def _find_shards(self, parameters: Iterator[Tensor]) -> None:
        if "torch.distributed.tensor" in sys.modules and any(is_shard(parameter) for parameter in parameters):
            self.bus.skip_shard_readers()

    # -- answers --

    def model(self, module: nn.Module) -> KnownModel | None:
        """The entry of a module; None for one without parameters (a criterion)."""
        if self._last_lookup is None or self._last_lookup[0]() is not module:
            self._last_lookup = (weakref.ref(module), self.models.get(self.bus.ordinal("model", unwrapped(module))))
        return self._last_lookup[1]

    def optimizer(self, optimizer: Optimizer) -> KnownOptimizer:
        if self._last_optimizer is None or self._last_optimizer[0]() is not optimizer:
            self._last_optimizer = (weakref.ref(optimizer), self._know(optimizer, None))
        return self._last_optimizer[1]

    def living_models(self) -> Iterator[tuple[KnownModel, nn.Module]]:
        for known in tuple(self.models.values()):
            if (module := known.ref()) is not None:
                yield known, module

    def living_optimizers(self) -> Iterator[tuple[KnownOptimizer, Optimizer]]:
        for known in tuple(self.optimizers.values()):
            if (optimizer := known.ref()) is not None:
                yield known, optimizer

    def held_ids(self) -> set[int]:
        """Identities of every parameter that some living optimizer holds now."""
        return {id(p) for _, optimizer in self.living_optimizers() for p in parameters_of(optimizer)}

    def name_of(self, parameter: Tensor) -> str:
        """`fc1.weight`, by the models seen; empty if it belongs to none of them."""
        entry = self._names.get(id(parameter))
        if entry is None or entry[0]() is not parameter:
            for _, module in self.living_models():
                for name, tensor in module.named_parameters():
                    self._names[id(tensor)] = (weakref.ref(tensor), name)
            entry = self._names.get(id(parameter))
        return entry[1] if entry is not None and entry[0]() is parameter else ""


def unwrapped(module: nn.Module) -> nn.Module:
    """The user's model inside a compiled one or a data-parallel wrapper."""
    if type(module).__module__.startswith("torch."):
        for attribute in (WRAPPED_MODULE, "module"):
            # `getattr` of a missing attribute is slow on a module; TorchScript's `_modules` has no `get`.
            children = own_modules(module)
            if attribute in children and (inner := children[attribute]) is not None:
                return unwrapped(inner)
    return module
