"""NaN or Inf losses and gradients that stay unnoticed: skipped by a guard, replaced, or filtered from a log.

Values are read only on suspicion: a guard of the user checks one, `nan_to_num` is called, or a loss function is called
again at its line without a backward between. A finite loss in the next backward shows that training continues.
"""

import ast
import math
import sys
import weakref
from dataclasses import dataclass
from types import FrameType
from typing import Final, Literal

import torch
from torch import Tensor

from trueloop.event import LogFiltered, LossHidden, Place
from trueloop.measure.parameters import parameters_of
from trueloop.observers.observer import Observer
from trueloop.taps.calls import BackwardCall, FiniteCheck, LossCall, NanReplaced
from trueloop.usercode.source import source_of

__all__ = ["HiddenNonfiniteObserver"]

READ_EVERY: Final = 20  # steps between reads of values on a device, which make the host wait
FILTER: Final = "logging_nan_inf_filter"  # the option of transformers' Trainer that removes such losses from its log


@dataclass(slots=True)
class _Suspect:
    """A non-finite value without a backward since."""

    place: Place | None
    what: Literal["loss", "value"]


class HiddenNonfiniteObserver(Observer):
    emits = (LossHidden, LogFiltered)

    def prepare(self) -> None:
        self._backwards = 0
        self._losses: dict[Place | None, tuple[weakref.ref[Tensor], int]] = {}
        """The latest loss of each line, and the number of backwards before it."""
        self._suspect: _Suspect | None = None
        self._deciding: dict[Place, bool] = {}
        self._checked = False  # for a framework's filter, once

    # -- left out --

    def finite_checked(self, asked: FiniteCheck) -> None:
        may_read = self._may_read(asked.tensor) or self._waits(asked.place)
        if asked.tensor.is_floating_point() and may_read and _not_finite(asked.tensor):
            self._suspect = _Suspect(asked.place, "value" if asked.tensor.grad_fn is None else "loss")

    def loss_called(self, loss: LossCall) -> None:
        if loss.output.grad_fn is None:
            return
        before = self._losses.get(loss.place)
        self._losses[loss.place] = weakref.ref(loss.output), self._backwards
        if before is None or before[1] != self._backwards or self._suspect is not None:
            return
        dropped = before[0]()
        if dropped is not None and dropped.numel() == 1 and self._may_read(dropped) and _not_finite(dropped):
            self._suspect = _Suspect(loss.place, "loss")

    def backward_started(self, call: BackwardCall) -> None:
        if not self._checked and "transformers" in sys.modules:
            self._find_filter(call.place)
        self._backwards += 1
        suspect, self._suspect = self._suspect, None
        first = call.tensors[0] if call.tensors else None
        if suspect is not None and isinstance(first, Tensor) and not _not_finite(first):
            self.emit(LossHidden, suspect.place, suspect.what, "left out")

    def gradients_taken(self, call: BackwardCall) -> None:
        """A loss that needs no backward: an inner step of meta-learning, a penalty."""
        self._backwards += 1

    # -- replaced --

    def nan_replaced(self, replaced: NanReplaced) -> None:
        tensor = replaced.tensor
        loss = tensor.numel() == 1 and tensor.grad_fn is not None
        candidate = tensor.is_floating_point() and (loss or tensor.grad_fn is None)
        if not candidate or not self._may_read(tensor) or not _not_finite(tensor):
            return
        if loss or self._is_gradient(tensor):
            self.emit(LossHidden, replaced.place, "loss" if loss else "gradient", "replaced")

    def _is_gradient(self, tensor: Tensor) -> bool:
        optimizers = (optimizer for _, optimizer in self.objects.living_optimizers())
        return any(p.grad is tensor for optimizer in optimizers for p in parameters_of(optimizer))

    def _may_read(self, tensor: Tensor) -> bool:
        return tensor.is_cpu or (not tensor.is_meta and (self.bus.deep or self.bus.step % READ_EVERY == 0))

    def _waits(self, place: Place) -> bool:
        """The line branches on the answer, so it waits for the device anyway."""
        if place not in self._deciding:
            statement = source_of(place.path).statement(place.line)
            self._deciding[place] = isinstance(statement, (ast.If, ast.While, ast.Assert))
        return self._deciding[place]

    # -- filtered --

    def _find_filter(self, place: Place | None) -> None:
        """Transformers' Trainer runs this backward, and removes such losses from the mean it logs."""
        self._checked = True
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            if frame.f_globals.get("__name__") == "transformers.trainer":
                trainer = frame.f_locals.get("self")
                if getattr(getattr(trainer, "args", None), FILTER, False):
                    self.emit(LogFiltered, place, "transformers' Trainer", FILTER)
                return
            frame = frame.f_back


def _not_finite(tensor: Tensor) -> bool:
    if tensor.numel() == 1:
        return not math.isfinite(tensor.item())
    with torch.no_grad():
        return not math.isfinite(tensor.detach().float().sum().item())
