"""Settings of optimizers, clipping, dropout and class weights, beside what they did over the run."""

import weakref
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isclose
from statistics import median
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils.data import DataLoader

from trueloop.event import SCALE_FREE, ClassWeights, ClipsMeasured, DropoutRates, OptimizerSettings, Place, RateCycle
from trueloop.event.operation_names import CLASS_LOSSES
from trueloop.measure.norms import norms_read
from trueloop.measure.parameters import parameters_of
from trueloop.measure.tensors import evenly_spaced, is_plain, is_readable, on_host
from trueloop.observers.observer import Observer
from trueloop.taps.calls import (
    BackwardCall,
    BuiltOptimizer,
    BuiltSchedule,
    ClipCall,
    LoaderStart,
    LossCall,
    ModuleCall,
    Restored,
    RunEnd,
    StateLoad,
    StepCall,
)
from trueloop.torch_private.modules import DropoutNd
from trueloop.usercode.ownership import MODEL_LIBRARIES

__all__ = ["ClassWeightsObserver", "ClippingObserver", "DropoutRatesObserver", "OptimizerSettingsObserver"]

MOST_RATES: Final = 20_000
START: Final = 6  # rates of the first steps: enough to see how a warm-up rises
PERIODS: Final = 3
FIRST_CLIPS: Final = 16
EVERY: Final = 16
MOST_CLIPS: Final = 200
MATRICES: Final = 32
FIRST_LOOK: Final = 4  # steps of an optimizer before it is measured; then every quarter more
TARGETS: Final = 50_000


@dataclass(slots=True)
class _Run:
    """One optimizer."""

    ref: weakref.ref[Optimizer]
    first_norm: float
    loaded: bool
    first: int  # the number of its first step here
    rates: list[float] = field(default_factory=list)
    gaps: bool = False  # some rates are interpolated, because their steps were not watched
    backwards: int = 0  # backward calls of the run before it was built
    due: int = FIRST_LOOK  # the step at which to measure next: the optimizer may be freed before the run ends
    decay: float = 0.0
    momentum: float = 0.0
    epsilon: float | None = None
    typical_gradient: float | None = None
    last_norm: float = 0.0
    restored: bool = False


class OptimizerSettingsObserver(Observer):
    emits = (OptimizerSettings,)

    def prepare(self) -> None:
        self._runs: dict[int, _Run] = {}
        self._backwards = 0
        self._built: dict[int, tuple[int, float]] = {}
        """Backward calls before an optimizer was built, and its rate."""
        self._passes: Counter[int] = Counter()
        self._batches: dict[int, int | None] = {}
        self._schedules: dict[int, tuple[Place | None, float]] = {}
        self._loaded: weakref.WeakSet[nn.Module] = weakref.WeakSet()
        self._restored: weakref.WeakSet[Optimizer] = weakref.WeakSet()

    def state_restored(self, restored: Restored) -> None:
        if isinstance(restored.owner, Optimizer):
            self._restored.add(restored.owner)

    def state_loading(self, load: StateLoad) -> None:
        self._loaded.add(load.module)

    def optimizer_built(self, built: BuiltOptimizer) -> None:
        self._built[self.bus.ordinal("optimizer", built.optimizer)] = (self._backwards, _rate(built.optimizer))

    def backward_ended(self, call: BackwardCall) -> None:
        self._backwards += 1

    def loader_started(self, start: LoaderStart) -> None:
        number = self.bus.ordinal("loader", start.loader)
        self._passes[number] += 1
        self._batches.setdefault(number, _length(start.loader))

    def schedule_built(self, built: BuiltSchedule) -> None:
        optimizer = getattr(built.scheduler, "optimizer", None)
        if isinstance(optimizer, Optimizer):
            bases = [float(g.get("initial_lr", g["lr"])) for g in optimizer.param_groups if _is_number(g["lr"])]
            self._schedules[self.bus.ordinal("optimizer", optimizer)] = (built.place, max(bases, default=0.0))

    def step_started(self, call: StepCall) -> None:
        number = self.objects.optimizer(call.optimizer).number
        run = self._runs.get(number)
        if run is None:
            first, loaded = _norm(call.optimizer), self._is_loaded(call.optimizer)
            run = self._runs[number] = _Run(weakref.ref(call.optimizer), first, loaded, call.index)
            run.backwards = self._built.get(number, (max(0, self._backwards - 1), 0.0))[0]
            run.restored = call.optimizer in self._restored or _has_steps(call.optimizer)
        _add_rate(run, call.index - run.first, _rate(call.optimizer))

    def step_ended(self, call: StepCall) -> None:
        run = self._runs.get(self.objects.optimizer(call.optimizer).number)
        if run is not None and call.index + 1 >= run.due:
            run.due = (call.index + 1) * 5 // 4 + 1
            _measure(run, call.optimizer)

    def run_ended(self, end: RunEnd) -> None:
        for number, run in self._runs.items():
            optimizer, known = run.ref(), self.objects.optimizers[number]
            if optimizer is not None:
                _measure(run, optimizer)
            elif run.due == FIRST_LOOK:
                continue
            steps = max(known.steps, self.bus.steps_taken[number] - run.first)
            if optimizer is not None and len(run.rates) < min(steps, MOST_RATES):
                _add_rate(run, steps - 1, _rate(optimizer))
            loader, passes = max(self._passes.items(), key=lambda item: item[1], default=(-1, 0))
            place, base = self._schedules.get(number, (None, None))
            rises = sum(b > a for a, b in zip(run.rates, run.rates[1:], strict=False))
            highest = max(run.rates)
            backwards = (self._backwards - run.backwards) * steps // max(1, known.steps)
            self.emit(
                OptimizerSettings,
                known.place,
                number,
                known.name,
                steps,
                backwards,
                passes,
                self._batches.get(loader),
                run.rates[0],
                highest,
                run.rates[-1],
                base,
                sum(rate < 0.01 * highest for rate in run.rates) / len(run.rates),
                rises / max(1, len(run.rates) - 1),
                run.decay,
                run.momentum,
                run.epsilon,
                run.typical_gradient,
                run.first_norm,
                run.last_norm,
                place,
                run.loaded,
                self._built.get(number, (0, None))[1],
                run.restored,
                tuple(run.rates[:START]),
                None if run.gaps else _cycle(run.rates),
            )

    def _is_loaded(self, optimizer: Optimizer) -> bool:
        living = [model for _, model in self.objects.living_models()]
        foreign = [m for model in living for m in model.modules() if type(m).__module__.startswith(MODEL_LIBRARIES)]
        ids = {id(p) for module in (*self._loaded, *foreign) for p in module.parameters()}
        return any(id(p) in ids for p in parameters_of(optimizer))


class ClippingObserver(Observer):
    emits = (ClipsMeasured,)

    def prepare(self) -> None:
        self._calls: Counter[Place | None] = Counter()
        self._norms: dict[Place | None, list[float]] = {}
        self._limits: dict[Place | None, float] = {}
        self._scale_free: dict[Place | None, bool] = {}

    def clip_started(self, call: ClipCall) -> None:
        number = self._calls[call.place]
        self._calls[call.place] += 1
        if call.function != "clip_grad_norm_" or (number >= FIRST_CLIPS and number % EVERY):
            return
        gradients = [p.grad for p in call.parameters if isinstance(p, Tensor) and p.grad is not None]
        taken = self._norms.setdefault(call.place, [])
        if len(taken) >= MOST_CLIPS or not gradients or any(not is_plain(g) or g.is_sparse for g in gradients):
            return
        if not gradients[0].is_cpu and number >= EVERY // 2:
            return
        taken.append(sum(norm**2 for norm in norms_read(gradients)) ** 0.5)
        self._limits[call.place] = call.limit
        ids = {id(p) for p in call.parameters}
        owners = [o for o, _ in self.objects.living_optimizers() if ids & o.ids]
        self._scale_free[call.place] = bool(owners) and all(owner.name in SCALE_FREE for owner in owners)

    def run_ended(self, end: RunEnd) -> None:
        for place, values in self._norms.items():
            if values:
                limit = self._limits[place]
                clipped = sum(value > limit for value in values) / len(values)
                self.emit(ClipsMeasured, place, self._calls[place], len(values), limit, median(values), clipped,
                          self._scale_free[place])  # fmt: skip


class DropoutRatesObserver(Observer):
    emits = (DropoutRates,)

    def prepare(self) -> None:
        self._done: set[int] = set()

    def module_call_started(self, call: ModuleCall) -> None:
        known = self.objects.model(call.module)
        if known is None or known.number in self._done or not (call.grad and call.training):
            return
        self._done.add(known.number)
        layers = [(name, m) for name, m in call.module.named_modules() if isinstance(m, DropoutNd)]
        rates = tuple((name, float(layer.p)) for name, layer in layers if layer.p > 0)
        if rates:
            self.emit(DropoutRates, call.place, known.number, known.name, rates)


class ClassWeightsObserver(Observer):
    emits = (ClassWeights,)

    def prepare(self) -> None:
        self._lines: dict[tuple[str, Place | None], tuple[list[float], Counter[int], list[int]]] = {}

    def loss_called(self, loss: LossCall) -> None:
        weights = _class_weights(loss)
        if weights is None:
            return
        _, counts, calls = self._lines.setdefault((loss.function, loss.place), (weights, Counter(), [0]))
        calls[0] += 1
        readable = is_plain(loss.target) and is_readable(loss.target)
        if readable and counts.total() < TARGETS and (loss.target.is_cpu or calls[0] <= FIRST_CLIPS):
            counts.update(evenly_spaced(loss.target.detach().reshape(-1), 4096).long().tolist())

    def run_ended(self, end: RunEnd) -> None:
        for (function, place), (weights, counts, calls) in self._lines.items():
            found = tuple(counts[index] for index in range(len(weights)))
            positive = function == "binary_cross_entropy_with_logits"
            self.emit(ClassWeights, place, function, tuple(weights), found, calls[0], positive)


def _class_weights(loss: LossCall) -> list[float] | None:
    """The weight of each class; of a binary loss 1 and the mean `pos_weight`."""
    if loss.function in CLASS_LOSSES:
        weight = loss.options.get("weight")
        if isinstance(weight, Tensor) and weight.ndim == 1 and not loss.target.dtype.is_floating_point:
            weights: list[float] = weight.detach().cpu().tolist()
            return weights
    if loss.function == "binary_cross_entropy_with_logits":
        weight = loss.options.get("pos_weight")
        if isinstance(weight, Tensor) and is_plain(weight) and bool(((loss.target == 0) | (loss.target == 1)).all()):
            return [1.0, weight.detach().double().mean().item()]
    return None


def _measure(run: _Run, optimizer: Optimizer) -> None:
    group = optimizer.param_groups[0]
    betas, epsilon = group.get("betas"), group.get("eps")
    momentum = (betas[0] if isinstance(betas, (tuple, list)) else group.get("momentum", 0)) or 0
    run.decay = float(group.get("weight_decay") or 0)
    run.momentum = float(momentum) if _is_number(momentum) else 0.0
    run.epsilon = float(epsilon) if epsilon is not None and _is_number(epsilon) else None
    run.typical_gradient, run.last_norm = _typical_gradient(optimizer), _norm(optimizer)


def _rate(optimizer: Optimizer) -> float:
    """The highest of its groups."""
    return max((float(group["lr"]) for group in optimizer.param_groups if _is_number(group["lr"])), default=0.0)


def _add_rate(run: _Run, number: int, rate: float) -> None:
    """The rate of a step. Between watched steps it is taken to rise by equal amounts, and to fall by equal shares."""
    unseen = min(number, MOST_RATES) - len(run.rates)
    if unseen > 0:
        before, run.gaps = run.rates[-1], True
        shares = [(n + 1) / (unseen + 1) for n in range(unseen)]
        falls = 0 < rate < before
        run.rates += [before * (rate / before) ** s if falls else before + (rate - before) * s for s in shares]
    if len(run.rates) < MOST_RATES:
        run.rates.append(rate)


def _cycle(rates: list[float]) -> RateCycle | None:
    """The shortest period after which the rate falls back to the first one, and everything repeats."""
    falls = (k for k in range(4, len(rates) // PERIODS + 1) if rates[k] == rates[0] < rates[k - 1])
    steps = next(falls, 0)
    if not steps or any(late != early for late, early in zip(rates[steps:], rates, strict=False)):
        return None
    rises = [rates[k + 1] - rates[k] for k in range(3)]
    linear = rises[0] > 0 and all(isclose(rise, rises[0], rel_tol=1e-6) for rise in rises)
    last, before = rates[steps - 1], rates[steps - 2]
    return RateCycle(steps, rates[0], max(rates[:steps]), last, linear, last == before)


def _has_steps(optimizer: Optimizer) -> bool:
    entries = [entry for entry in optimizer.state.values() if isinstance(entry, Mapping)]
    return any(float(entry.get("step", 1)) > 0 for entry in entries if any(v is not None for v in entry.values()))


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) or (isinstance(value, Tensor) and value.is_cpu and value.numel() == 1)


def _length(loader: DataLoader[Any]) -> int | None:
    try:
        return len(loader)
    except TypeError:  # a stream has no length
        return None


def _norm(optimizer: Optimizer) -> float:
    matrices = [p.detach() for p in parameters_of(optimizer) if is_plain(p) and p.ndim >= 2 and is_readable(p)]
    return sum(norm**2 for norm in norms_read(matrices[:MATRICES])) ** 0.5 if matrices else 0.0


@torch.no_grad()
def _typical_gradient(optimizer: Optimizer) -> float | None:
    """The root of Adam's second moment, corrected for its start, median over a sample of the elements."""
    found = []
    for parameter in list(parameters_of(optimizer))[:MATRICES]:
        state = optimizer.state.get(parameter, {})
        moment, steps = state.get("exp_avg_sq"), state.get("step")
        if not isinstance(moment, Tensor) or not is_plain(moment) or not is_readable(moment) or steps is None:
            continue
        beta = optimizer.param_groups[0].get("betas", (0.9, 0.999))[1]
        corrected = on_host(evenly_spaced(moment.reshape(-1), 256)) / max(1e-12, 1 - float(beta) ** float(steps))
        found += corrected.sqrt().tolist()
    return median(found) if found else None
