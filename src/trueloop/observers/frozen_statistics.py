"""Batch norm layers with frozen weights that still update their running statistics, in a model that trains."""

import weakref
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from trueloop.event import FrozenStatisticsMoved
from trueloop.measure.parameters import parameters_of
from trueloop.observers.observer import Observer
from trueloop.observers.run_objects import KnownModel
from trueloop.taps.calls import StepCall
from trueloop.torch_private.modules import BatchNorm

__all__ = ["FrozenStatisticsObserver"]

NAMED: Final = 4  # names to list


@dataclass(slots=True)
class _Look:
    """One layer at one moment."""

    layer: weakref.ref[nn.Module]
    name: str
    mean: Tensor
    weights: Tensor


class FrozenStatisticsObserver(Observer):
    emits = (FrozenStatisticsMoved,)

    def prepare(self) -> None:
        self._looks: dict[tuple[int, int], tuple[int, list[_Look]]] = {}
        """By the numbers of model and optimizer: the optimizer's step, and its frozen layers then."""
        self._reported: set[int] = set()

    def step_ended(self, call: StepCall) -> None:
        taken = call.index + 1
        if taken & (taken - 1) or taken == 1:  # steps 2, 4, 8, 16 ...
            return
        number = self.bus.ordinal("optimizer", call.optimizer)
        for known, model in self.objects.living_models():
            if known.number not in self._reported and _trains(model, call.optimizer):
                self._look(call, known, model, (known.number, number))

    def _look(self, call: StepCall, known: KnownModel, model: nn.Module, key: tuple[int, int]) -> None:
        before = self._looks.pop(key, None)
        moved: list[tuple[str, float]] = []
        for look in before[1] if before is not None else ():
            layer = look.layer()
            if isinstance(layer, BatchNorm) and _is_frozen(layer) and layer.running_mean is not None:
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
        looks = [
            _Look(weakref.ref(layer), name, layer.running_mean.clone(), _weights(layer))
            for name, layer in model.named_modules()
            if isinstance(layer, BatchNorm) and _is_frozen(layer) and layer.running_mean is not None
        ]
        if looks:
            self._looks[key] = (call.index, looks)


def _trains(model: nn.Module, optimizer: Optimizer) -> bool:
    """Does this optimizer train a part of the model?"""
    own = {id(parameter) for parameter in model.parameters() if parameter.requires_grad}
    return model.training and any(id(parameter) in own for parameter in parameters_of(optimizer))


def _is_frozen(layer: BatchNorm) -> bool:
    """It has weights, all frozen, and updates its running statistics from the batches."""
    weights = [weight for weight in (layer.weight, layer.bias) if weight is not None]
    return bool(weights) and layer.training and layer.track_running_stats and not any(w.requires_grad for w in weights)


def _weights(layer: BatchNorm) -> Tensor:
    with torch.no_grad():
        return torch.cat([weight.detach().reshape(-1) for weight in (layer.weight, layer.bias) if weight is not None])
