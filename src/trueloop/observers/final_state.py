"""What became of the models of a run: equal ensemble members, weights that stay zero, statistics that cannot follow.

Models may be freed before the run ends, so each fact is taken while they are used and emitted at the end.
"""

import math
import weakref
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

import torch
from torch import Tensor, nn

from trueloop.event import BatchNormSettings, ModelsIdentical, Place, ZeroWeights
from trueloop.measure.rows import digests
from trueloop.measure.tensors import evenly_spaced, is_plain, is_readable
from trueloop.observers.observer import Observer
from trueloop.taps.calls import ModuleCall, OperationCall, RunEnd, StepCall, tensors_in
from trueloop.torch_private.modules import BatchNorm

__all__ = ["FinalStateObserver"]

LEAST_STEPS: Final = 20
LOOKS: Final = 3  # at a weight that stays zero
COMPARED: Final = 4  # training calls whose inputs must be equal
SLOW: Final = 0.02  # momentum below which batch norm follows slowly
LEFT: Final = 0.05  # share of the initial statistics that does not matter
MOST: Final = 64  # weights examined
NUMBERS: Final = 64  # of a weight
LEAST_IDS: Final = 20  # different ids looked up in a table
Zeros = dict[str, tuple[weakref.ref[Tensor], int]]
"""By name: a weight that has been zero so far, and how many looks have found it so."""


@dataclass(slots=True)
class _Trained:
    """A model that an optimizer steps."""

    name: str
    optimizer: str
    first: int  # number of the step, over all optimizers
    last: int = 0
    steps: int = 0
    parameters: int = 0
    key: tuple[int, ...] = ()  # steps at the latest look, and the digest of the weights then
    at_power: tuple[int, ...] = ()  # the same of the latest look at a power of two, which no pause leaves out


class FinalStateObserver(Observer):
    emits = (ModelsIdentical, ZeroWeights, BatchNormSettings)

    def prepare(self) -> None:
        self._calls: Counter[int] = Counter()
        self._places: dict[int, Place | None] = {}
        self._inputs: dict[int, tuple[int, ...]] = {}
        self._zero: dict[int, Zeros] = {}
        self._steps = 0
        self._paused = False
        self._trained: dict[int, _Trained] = {}
        self._stepped: dict[int, list[tuple[_Trained, weakref.ref[nn.Module]]]] = {}
        """By optimizer: the models whose weights it holds."""
        self._norms: dict[int, list[weakref.ref[nn.Module]]] = {}
        """By model: batch norm layers with a small momentum whose running statistics were initial at the first call."""
        self._evaluated: dict[int, tuple[int, _Lag | None]] = {}
        self._tables: dict[int, tuple[Place | None, str, str, float]] = {}

    def watching_resumed(self, nothing: None) -> None:
        self._paused = True

    # -- calls --

    def module_call_started(self, call: ModuleCall) -> None:
        known = self.objects.model(call.module)
        if known is None or call.recalibration:
            return
        number = known.number
        if not call.training:
            if self._norms.get(number) and self._evaluated.get(number, (0, None))[0] != self._calls[number]:
                self._evaluated[number] = (self._calls[number], _slowest(self._norms[number]))
            return
        if not call.grad:
            return
        self._calls[number] += 1
        self._places[number] = call.place
        if self._calls[number] <= COMPARED:
            given = next((t for t in (*tensors_in(call.args), *tensors_in(call.kwargs)) if _is_cpu(t)), None)
            digest = 0 if given is None or not given.ndim else digests(evenly_spaced(given, 8).float())
            self._inputs[number] = (*self._inputs.get(number, ()), hash(str(digest)))
        if number not in self._zero:
            weights = [(n, p) for n, p in call.module.named_parameters() if p.requires_grad and p.ndim >= 2]
            self._zero[number] = {name: (weakref.ref(p), 0) for name, p in weights if _is_zero(p)}
            self._norms[number] = [weakref.ref(m) for m in call.module.modules() if _is_fresh_and_slow(m)]

    def operation_ended(self, call: OperationCall) -> None:
        """In recorded steps: lookups in frozen tables."""
        if call.name != "embedding" or self.bus.call is None or len(call.args) < 2:
            return
        tables = [t for t in call.args[:2] if isinstance(t, Tensor) and t.is_floating_point()]
        ids = [t for t in call.args[:2] if isinstance(t, Tensor) and not t.is_floating_point() and _is_cpu(t)]
        if len(tables) != 1 or len(ids) != 1 or tables[0].requires_grad or not _is_cpu(tables[0]):
            return
        looked_up = torch.unique(ids[0])
        known = self.objects.model(self.bus.call.module)
        if known is None or len(looked_up) < LEAST_IDS or not self.bus.call.grad:
            return
        share = (tables[0][looked_up] == 0).all(1).double().mean().item()
        name = self.objects.name_of(tables[0])
        self._tables[known.number] = (self.bus.call.place, known.name, name, share)

    # -- steps --

    def step_started(self, call: StepCall) -> None:
        if call.index < 4 or not _is_power(call.index):
            return
        ids = self.objects.optimizer(call.optimizer).ids
        for zeros in self._zero.values():
            for name, (ref, looks) in list(zeros.items()):
                weight = ref()
                if weight is not None and id(weight) in ids:
                    if weight.grad is None or not _is_zero(weight) or not _is_zero(weight.grad):
                        del zeros[name]
                    else:
                        zeros[name] = (ref, looks + 1)

    def step_ended(self, call: StepCall) -> None:
        self._steps += 1
        known = self.objects.optimizer(call.optimizer)
        if known.number not in self._stepped or _is_power(call.index) or call.index % NUMBERS == 0:
            self._stepped[known.number] = self._models_of(known.ids, known.name)
        look = _is_power(call.index + 1) or call.index % (32 if call.index < 4096 else 1024) == 0
        for trained, ref in self._stepped[known.number]:
            trained.last, trained.steps = self._steps, call.index + 1
            if look and (module := ref()) is not None:
                weights = [p for p in module.parameters() if id(p) in known.ids and _is_cpu(p)]
                trained.parameters = sum(p.numel() for p in weights)
                trained.key = (trained.steps, _digest(weights)) if weights else ()
                trained.at_power = trained.key if _is_power(call.index + 1) else trained.at_power

    def _models_of(self, ids: frozenset[int], optimizer: str) -> list[tuple[_Trained, weakref.ref[nn.Module]]]:
        """The models whose weights an optimizer holds; of several that share weights (wrappers), one."""
        found: list[tuple[_Trained, weakref.ref[nn.Module]]] = []
        seen: set[int] = set()
        for known, module in self.objects.living_models():
            held = {id(p) for p in module.parameters()} & ids
            if held and not held & seen:
                seen |= held
                entry = self._trained.setdefault(known.number, _Trained(known.name, optimizer, self._steps))
                found.append((entry, known.ref))
        return found

    # -- facts --

    def run_ended(self, end: RunEnd) -> None:
        self._report_identical()
        for number, zeros in self._zero.items():
            steps = self._trained[number].steps if number in self._trained else 0
            names = tuple(name for name, (_, looks) in zeros.items() if looks >= LOOKS)
            if names and steps >= LEAST_STEPS:
                name = self._trained[number].name
                self.emit(ZeroWeights, self._places.get(number), name, names, False, 1.0, steps)
        for number, (place, model, table, share) in self._tables.items():
            if share > 0.5 and self._calls[number] >= LEAST_STEPS:
                self.emit(ZeroWeights, place, model, (table,), True, share, self._calls[number])
        for number, (_, facts) in self._evaluated.items():
            if facts is not None and facts.updates >= LEAST_STEPS:
                self.emit(BatchNormSettings, self._places.get(number), self.objects.models[number].name, facts.layers,
                          facts.momentum, facts.updates, facts.left, facts.shift, facts.ratio)  # fmt: skip

    def _report_identical(self) -> None:
        for number, held in self._stepped.items():
            for one, _ in held:
                one.steps = self.bus.steps_taken[number]
                one.key = one.at_power if self._paused else one.key
        groups: dict[tuple[object, ...], list[int]] = defaultdict(list)
        long = {n: t for n, t in self._trained.items() if t.steps >= LEAST_STEPS and t.key}
        for number, one in long.items():
            if inputs := self._inputs.get(number):
                groups[one.name, one.parameters, one.optimizer, one.steps, one.key, inputs].append(number)
        for numbers in groups.values():
            first = long[numbers[0]]
            # two models one after the other may be a test of reproducibility
            if len(numbers) > 2 or any(_alternate(long[a], long[b]) for a, b in combinations(numbers, 2)):
                same_kind = sum(t.name == first.name and t.parameters == first.parameters for t in long.values())
                place = self._places.get(max(numbers))
                self.emit(ModelsIdentical, place, first.name, len(numbers), same_kind, first.parameters)


@dataclass(frozen=True, slots=True)
class _Lag:
    layers: int
    momentum: float
    updates: int
    left: float
    shift: float
    ratio: float


def _slowest(layers: list[weakref.ref[nn.Module]]) -> _Lag | None:
    """The layer whose running statistics are farthest from the average of its batches, if that matters."""
    found = [facts for ref in layers if (layer := ref()) is not None and (facts := _lag(layer, len(layers)))]
    return max(found, key=lambda facts: facts.shift + abs(math.log(facts.ratio)), default=None)


def _lag(layer: nn.Module, layers: int) -> _Lag | None:
    mean, variance, momentum = layer.running_mean, layer.running_var, layer.momentum
    if not isinstance(mean, Tensor) or not isinstance(variance, Tensor) or not isinstance(momentum, float):
        return None
    updates = int(layer.num_batches_tracked)  # type: ignore[arg-type]
    left = (1 - momentum) ** updates
    if left < LEFT or left == 1 or not bool(variance.isfinite().all()):
        return None
    true_mean = mean.double() / (1 - left)
    true_variance = ((variance.double() - left) / (1 - left)).clamp_min(1e-6)
    shift = (left * true_mean.abs() / true_variance.sqrt()).mean().item()
    ratio = (variance.double() / true_variance).log().mean().exp().item()
    if shift < 0.2 and 0.8 < ratio < 1.25:
        return None
    return _Lag(layers, momentum, updates, left, shift, ratio)


def _is_fresh_and_slow(module: nn.Module) -> bool:
    if not isinstance(module, BatchNorm) or not module.track_running_stats or module.num_batches_tracked is None:
        return False
    return module.momentum is not None and module.momentum < SLOW and int(module.num_batches_tracked) == 0


def _digest(weights: Sequence[Tensor]) -> int:
    """Of numbers from weights all over the model, the last ones (heads) among them."""
    chosen = [*_spread(weights[:-4], MOST), *weights[-4:]]
    numbers = torch.cat([evenly_spaced(weight.detach().reshape(-1), NUMBERS).float() for weight in chosen])
    return digests(numbers.reshape(1, -1))[0]


def _spread(weights: Sequence[Tensor], limit: int) -> Sequence[Tensor]:
    return weights[:: max(1, -(-len(weights) // limit))]


def _alternate(one: _Trained, other: _Trained) -> bool:
    return one.first < other.last - 1 and other.first < one.last - 1


def _is_power(index: int) -> bool:
    return index & (index - 1) == 0


def _is_cpu(tensor: Tensor) -> bool:
    return is_plain(tensor) and is_readable(tensor) and tensor.is_cpu


def _is_zero(tensor: Tensor) -> bool:
    return _is_cpu(tensor) and not bool(tensor.detach().any())
