"""Hidden activations: dead units, and saturated values.

Read from the graph when a backward begins: on the first backwards of each line, then ever more rarely, so that the
measurements always cover three quarters of the run. All other backwards cost one count.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Final

import torch
from torch import Tensor

from trueloop.event import ActivationsMeasured, LayerActivations, Place
from trueloop.observers.observer import Observer
from trueloop.observers.run_objects import KnownModel
from trueloop.taps.calls import BackwardCall
from trueloop.taps.hidden_activations import Activation, hidden_activations
from trueloop.usercode.ownership import built_place

__all__ = ["ActivationsObserver"]

ROW: Final = 5  # measurements in a row in which a unit is zero for every sample before it counts as dead
OBSERVATIONS: Final = 32  # values of a unit that a measurement must hold to count
RAIL: Final = 0.01  # distance from an end of the range at which the slope is below 1 % (sigmoid) or 2 % (tanh)


class _Layer:
    """What is known of one layer."""

    __slots__ = ("defined", "idle", "looks")

    def __init__(self, units: int, defined: Place | None) -> None:
        self.idle = torch.zeros(units, dtype=torch.int32)  # measurements in a row in which each unit was zero
        self.looks = 0
        self.defined = defined


class ActivationsObserver(Observer):
    emits = (ActivationsMeasured,)

    def prepare(self) -> None:
        self._backwards: Counter[int] = Counter()  # by identity of the place: one line is always one object
        self._layers: dict[tuple[int, str, str], _Layer] = {}

    def backward_started(self, call: BackwardCall) -> None:
        key = id(call.place)
        number = self._backwards[key] = self._backwards[key] + 1
        if number & (number - 1) and not _is_between(number):
            return
        roots = [tensor.grad_fn for tensor in call.tensors if tensor.grad_fn is not None]
        if len(roots) == 1:
            with torch.no_grad():
                self._look(hidden_activations(roots[0]), call, number)

    def _look(self, found: list[Activation], call: BackwardCall, number: int) -> None:
        uses: dict[tuple[int, str], list[Activation]] = {}
        for activation in found:
            uses.setdefault((id(activation.weight), activation.function), []).append(activation)
        owners = self._owners() if uses else {}
        reported = [
            self._facts(*owners[weight], of_one, call.place)
            for (weight, _), of_one in uses.items()
            if weight in owners and len({use.values.shape[use.dimension] for use in of_one}) == 1
        ]
        layers = tuple(facts for facts in reported if facts is not None)
        if layers:
            self.emit(ActivationsMeasured, call.place, backward=number, layers=layers)

    def _owners(self) -> dict[int, tuple[KnownModel, str]]:
        """The model and the layer of each parameter."""
        found: dict[int, tuple[KnownModel, str]] = {}
        for known, model in self.objects.living_models():
            for name, parameter in model.named_parameters():
                found.setdefault(id(parameter), (known, name.rpartition(".")[0]))
        return found

    def _facts(
        self, known: KnownModel, layer: str, uses: list[Activation], place: Place | None
    ) -> LayerActivations | None:
        first = uses[0]
        units = first.values.shape[first.dimension]
        observations = sum(use.values.numel() for use in uses) // units
        if observations < OBSERVATIONS or any(use.gate and use.function != "relu" for use in uses):
            return None
        key = (known.number, layer, first.function)
        memory = self._layers.get(key)
        if memory is None or len(memory.idle) != units:
            model = known.ref()
            defined = None if model is None or place is None else built_place(model, layer, place.path)
            memory = self._layers[key] = _Layer(units, defined)
        memory.looks += 1
        if first.function == "relu":
            idle = torch.stack([_idle(use) for use in uses]).all(0).cpu()
            if idle.any():
                idle &= _has_weights(first).cpu()
            memory.idle = (memory.idle + 1) * idle
        return LayerActivations(
            model=known.name,
            layer=layer,
            function=first.function,
            units=units,
            observations=observations,
            dead=int((memory.idle >= ROW).sum()),
            saturated=0.0 if first.function == "relu" else _saturated_share(uses),
            measurements=memory.looks,
            defined=memory.defined,
        )


def _is_between(number: int) -> bool:
    """3, 6, 12, 24 ...: half way between two powers of two."""
    return number % 3 == 0 and (number // 3) & (number // 3 - 1) == 0


def _idle(use: Activation) -> Tensor:
    """Units that are zero for every sample; NaN is not zero."""
    others = [dimension for dimension in range(use.values.dim()) if dimension != use.dimension]
    return use.values.amax(others) <= 0


def _has_weights(use: Activation) -> Tensor:
    """Units whose incoming weights are not all zero: those are pruned, or not yet trained."""
    others = [dimension for dimension in range(use.weight.dim()) if dimension != use.rows]
    return use.weight.abs().amax(others) > 0


def _saturated_share(uses: Iterable[Activation]) -> float:
    shares = [
        ((v.values > 1 - RAIL) | (v.values < (RAIL if v.function == "sigmoid" else RAIL - 1))).float().mean()
        for v in uses
    ]
    return float(torch.stack(shares).mean())
