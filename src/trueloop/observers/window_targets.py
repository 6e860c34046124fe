"""Targets of forecasts that are the last numbers of their own windows, in recorded training steps."""

from typing import Any, Final

import torch
from torch import Tensor

from trueloop.event import Place, WindowEndsInTarget
from trueloop.event.operation_names import DIFFERENCES, DISTANCE_LOSSES
from trueloop.measure.tensors import is_plain, is_readable, tensors_in
from trueloop.measure.windows import overlaps, window_with_target
from trueloop.observers.observer import Observer
from trueloop.taps.calls import ModuleCall, OperationCall, ProgramStart

__all__ = ["WindowTargetsObserver"]

ELEMENTS: Final = 2**21
ROWS: Final = 8
_COMPARING: Final = DISTANCE_LOSSES | DIFFERENCES | {"gaussian_nll_loss"}


class WindowTargetsObserver(Observer):
    emits = (WindowEndsInTarget,)

    def prepare(self) -> None:
        self._on = False
        self._inputs: list[Tensor] = []  # copies of those of the latest call of a model
        self._found: tuple[Place | None, Tensor, Tensor] | None = None
        self._other = False  # a prediction was compared with something else

    def program_started(self, start: ProgramStart) -> None:
        self._on = start.phase == "training"
        self._inputs, self._found, self._other = [], None, False

    def module_call_started(self, call: ModuleCall) -> None:
        if self._on and self.objects.model(call.module) is not None:
            given = (*tensors_in(call.args, 8), *tensors_in(call.kwargs, 8))
            self._inputs = [tensor.detach().clone() for tensor in given if _is_data(tensor, (2, 3))]

    @torch.no_grad()
    def operation_ended(self, call: OperationCall) -> None:
        if not self._on or not self._inputs or call.name not in _COMPARING or len(call.args) < 2:
            return
        pair = [value for value in call.args[:2] if isinstance(value, Tensor)]
        if len(pair) != 2 or pair[0].requires_grad == pair[1].requires_grad:
            return
        predicted, target = pair if pair[0].requires_grad else pair[::-1]
        if not _is_data(target, (1, 2, 3)) or predicted.numel() != target.numel():
            return
        series = (window_with_target(given, target) for given in self._inputs)
        found = next((one for one in series if one is not None), None)
        if found is None:
            self._other = True
        else:
            self._found = self._found or (call.place, found, target.detach().clone())

    def program_ended(self, _: ProgramStart) -> None:
        found, self._found, self._inputs, self._on = self._found, None, [], False
        if found is not None and not self._other:
            place, series, target = found
            self.emit(WindowEndsInTarget, place, series.shape[1], target[0].numel(), len(target), overlaps(series))


def _is_data(tensor: Any, dims: tuple[int, ...]) -> bool:
    if not is_plain(tensor) or not is_readable(tensor) or tensor.requires_grad or tensor.ndim not in dims:
        return False
    return tensor.is_floating_point() and tensor.is_cpu and len(tensor) >= ROWS and tensor.numel() <= ELEMENTS
