"""Updates lost in half precision: how many entries of a weight a step leaves unchanged.

On steps whose number is a power of two, a part of the largest half-precision weight is copied before the step. Only
PyTorch's own optimizers count: others may round stochastically, or keep a float32 copy elsewhere.
"""

from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor
from torch.optim import Optimizer

from trueloop.event import UpdateRounded
from trueloop.measure.parameters import parameters_of
from trueloop.observers.observer import Observer
from trueloop.taps.calls import StepCall
from trueloop.taps.dtypes import HALVES

__all__ = ["LostUpdatesObserver"]

FIRST: Final = 2  # first step to measure: earlier ones may belong to a warm-up from zero
ENTRIES: Final = 1 << 16  # entries of a weight to compare


@dataclass(slots=True)
class _Look:
    """A part of a weight before the step. Kept during the step only."""

    parameter: Tensor
    before: Tensor
    asked: Tensor  # entries whose gradient is at least the mean: the step should change them
    rate: float


class LostUpdatesObserver(Observer):
    emits = (UpdateRounded,)

    def prepare(self) -> None:
        self._look: _Look | None = None

    def step_started(self, call: StepCall) -> None:
        self._look = None
        index = call.index
        if index < FIRST or index & (index - 1) or call.closure or not _rounds_plainly(call.optimizer):
            return
        if getattr(call.optimizer, "found_inf", None) is not None:
            return  # a fused optimizer may skip this step for the scaler
        weight = self._largest(call.optimizer)
        if weight is not None:
            self._look = _Look(*weight)

    def step_ended(self, call: StepCall) -> None:
        look, self._look = self._look, None
        if look is None:
            return
        with torch.no_grad():
            entries = int(look.asked.sum())
            unchanged = int(((_part(look.parameter) == look.before) & look.asked).sum())
        if entries == 0:
            return
        known = self.objects.optimizer(call.optimizer)
        self.emit(
            UpdateRounded,
            call.place,
            optimizer=known.number,
            name=known.name,
            index=call.index,
            parameter=self.objects.name_of(look.parameter),
            dtype=str(look.parameter.dtype).removeprefix("torch."),
            entries=entries,
            unchanged=unchanged / entries,
            learning_rate=look.rate,
            optimizer_place=known.place,
        )

    def _largest(self, optimizer: Optimizer) -> tuple[Tensor, Tensor, Tensor, float] | None:
        found: tuple[Tensor, float] | None = None
        for group in optimizer.param_groups:
            rate = float(group.get("lr", 0.0))
            for parameter in group["params"]:
                if _is_plain(parameter) and rate > 0 and (found is None or parameter.numel() > found[0].numel()):
                    found = parameter, rate
        if found is None or found[0].grad is None:
            return None
        with torch.no_grad():
            size = _part(found[0].grad).abs().float()
            return found[0], _part(found[0]).clone(), (size > 0) & (size >= size.mean()), found[1]


def _is_plain(parameter: Tensor) -> bool:
    gradient = parameter.grad
    dense = type(gradient) is Tensor and gradient.layout is torch.strided
    return dense and parameter.dtype in HALVES and not parameter.is_meta


def _part(tensor: Tensor) -> Tensor:
    """The first entries, in index order."""
    rows = max(1, ENTRIES // max(1, tensor[0].numel())) if tensor.dim() else 1
    return tensor.detach()[:rows].reshape(-1)[:ENTRIES] if tensor.dim() else tensor.detach().reshape(-1)


def _rounds_plainly(optimizer: Optimizer) -> bool:
    """Its step is PyTorch's own, which rounds to nearest; and it holds half-precision weights."""
    own = type(optimizer).step.__module__.startswith("torch.optim")
    return own and any(parameter.dtype in HALVES for parameter in parameters_of(optimizer))
