"""Batch norm layers with frozen weights that still update their statistics, in a model that trains or beside one.

A model that is frozen whole (a backbone whose features a head is trained on) must have had statistics before, and keep
its weights until the run ends: a discriminator that is frozen while its generator trains does not.
"""

import weakref
from dataclasses import dataclass, field
from typing import Final, TypeGuard

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from trueloop.event import FrozenStatisticsMoved, Place
from trueloop.measure.parameters import parameters_of
from trueloop.observers.observer import Observer
from trueloop.observers.run_objects import KnownModel
from trueloop.taps.calls import RunEnd, StepCall
from trueloop.torch_private.modules import BatchNorm

__all__ = ["FrozenStatisticsObserver"]

NAMED: Final = 4  # names to list
STEPS: Final = 12  # of an optimizer while a model beside it was frozen
MODELS: Final = 16


@dataclass(slots=True)
class _Look:
    """One layer at one moment."""

    layer: weakref.ref[nn.Module]
    name: str
    mean: Tensor
    weights: Tensor
    batches: int  # that its statistics have seen


@dataclass(slots=True)
class _Beside:
    """A model that is frozen whole, from the step of an optimizer that trains another model."""

    name: str
    first: int
    looks: list[_Look]
    last: int = 0
    place: Place | None = None
    moved: list[tuple[str, float]] = field(default_factory=list)  # layers, and the change of their running means


class FrozenStatisticsObserver(Observer):
    emits = (FrozenStatisticsMoved,)

    def prepare(self) -> None:
        self._looks: dict[tuple[int, int], tuple[int, list[_Look]]] = {}
        """By the numbers of model and optimizer: the optimizer's step, and its frozen layers then."""
        self._reported: set[int] = set()
        self._beside: dict[tuple[int, int], _Beside] = {}
        """By the numbers of model and optimizer."""
        self._trained: set[int] = set()  # models that were frozen whole, and changed later

    def step_ended(self, call: StepCall) -> None:
        taken = call.index + 1
        if taken & (taken - 1) or taken == 1:  # steps 2, 4, 8, 16 ...
            return
        number = self.bus.ordinal("optimizer", call.optimizer)
        for known, model in self.objects.living_models():
            if known.number in self._reported:
                continue
            if _trains(model, call.optimizer):
                self._trained |= {key[0] for key in self._beside if key[0] == known.number}
                self._look(call, known, model, (known.number, number))
            elif model.training and not self._in_training(model):
                self._look_beside(call, known, model, (known.number, number))

    def _in_training(self, model: nn.Module) -> bool:
        """Has it parameters that need a gradient and that some optimizer holds?"""
        own = {id(parameter) for parameter in model.parameters() if parameter.requires_grad}
        return bool(own) and not own.isdisjoint(self.objects.held_ids())

    def _look(self, call: StepCall, known: KnownModel, model: nn.Module, key: tuple[int, int]) -> None:
        before = self._looks.pop(key, None)
        moved: list[tuple[str, float]] = []
        for look in before[1] if before is not None else ():
            layer = look.layer()
            if _is_frozen(layer) and layer.running_mean is not None:
                # Weights that change anyway belong to an average of another network, or to another optimizer.
                same = torch.equal(_weights(layer), look.weights)
                change = (layer.running_mean - look.mean).abs().max().item() if same else 0.0
                moved += [(look.name, change)] if change else []
        if before is not None and moved:
            self._reported.add(known.number)
            names = tuple(name for name, _ in moved[:NAMED])
            steps, change = call.index - before[0], max(change for _, change in moved)
            self.emit(FrozenStatisticsMoved, call.place, known.name, names, len(moved), steps, change)
            return
        looks = [look for look in _looks(model) if _is_frozen(look.layer())]
        if looks:
            self._looks[key] = (call.index, looks)

    def _look_beside(self, call: StepCall, known: KnownModel, model: nn.Module, key: tuple[int, int]) -> None:
        beside = self._beside.get(key)
        if beside is None and len(self._beside) < MODELS and known.number not in self._trained:
            looks = _looks(model)
            # Statistics that began with this optimizer's first steps are those of a random network: they must settle.
            settled = all(look.batches > 4 * (call.index + 1) + STEPS for look in looks)
            self._beside[key] = _Beside(known.name, call.index, looks if settled else [])
        elif beside is not None and beside.looks:
            beside.last, beside.place, beside.moved = call.index, call.place, []
            for look in beside.looks:
                layer = look.layer()
                if isinstance(layer, BatchNorm) and layer.running_mean is not None and _follows(layer):
                    change = (layer.running_mean - look.mean).abs().max().item()
                    beside.moved += [(look.name, change)] if change else []
                    if not torch.equal(_weights(layer), look.weights):
                        self._trained.add(known.number)

    def run_ended(self, end: RunEnd) -> None:
        for (number, _), beside in self._beside.items():
            layers = ((look.layer(), look.weights) for look in beside.looks)
            if any(isinstance(one, BatchNorm) and not torch.equal(_weights(one), weights) for one, weights in layers):
                self._trained.add(number)  # perhaps in steps that were not watched
            moved, steps = beside.moved, beside.last - beside.first
            if number not in self._reported | self._trained and steps >= STEPS and moved:
                self._reported.add(number)
                names, change = tuple(name for name, _ in moved[:NAMED]), max(change for _, change in moved)
                self.emit(FrozenStatisticsMoved, beside.place, beside.name, names, len(moved), steps, change)


def _looks(model: nn.Module) -> list[_Look]:
    return [
        _Look(weakref.ref(layer), name, layer.running_mean.clone(), _weights(layer), _batches(layer))
        for name, layer in model.named_modules()
        if isinstance(layer, BatchNorm) and _follows(layer) and layer.running_mean is not None
    ]


def _trains(model: nn.Module, optimizer: Optimizer) -> bool:
    """Does this optimizer train a part of the model?"""
    own = {id(parameter) for parameter in model.parameters() if parameter.requires_grad}
    return model.training and any(id(parameter) in own for parameter in parameters_of(optimizer))


def _follows(layer: BatchNorm) -> bool:
    """It has weights, and updates its running statistics from the batches."""
    return layer.weight is not None and layer.training and layer.track_running_stats


def _is_frozen(layer: nn.Module | None) -> TypeGuard[BatchNorm]:
    """All its weights are frozen, its running statistics are not."""
    if not isinstance(layer, BatchNorm) or not _follows(layer):
        return False
    return not any(weight.requires_grad for weight in (layer.weight, layer.bias) if weight is not None)


def _batches(layer: BatchNorm) -> int:
    return 0 if layer.num_batches_tracked is None else int(layer.num_batches_tracked)


def _weights(layer: BatchNorm) -> Tensor:
    with torch.no_grad():
        return torch.cat([weight.detach().reshape(-1) for weight in (layer.weight, layer.bias) if weight is not None])
