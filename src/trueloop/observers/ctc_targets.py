"""Targets of `ctc_loss`, without their padding: does the index of the blank occur in them?"""

from typing import Any, Final

import torch
from torch import Tensor

from trueloop.event import CtcTargetsRead
from trueloop.measure.tensors import is_plain, is_readable
from trueloop.observers.observer import Observer
from trueloop.taps.calls import OperationCall, ProgramStart

__all__ = ["CtcTargetsObserver"]

_NAMES: Final = ("log_probs", "targets", "input_lengths", "target_lengths", "blank")
MOST: Final = 2**20  # elements


class CtcTargetsObserver(Observer):
    emits = (CtcTargetsRead,)

    def prepare(self) -> None:
        self._on = False

    def program_started(self, start: ProgramStart) -> None:
        self._on = start.phase == "training"

    def program_ended(self, _: ProgramStart) -> None:
        self._on = False

    def operation_ended(self, call: OperationCall) -> None:
        if not self._on or call.name != "ctc_loss":
            return
        given: dict[str, Any] = dict(zip(_NAMES, call.args, strict=False)) | dict(call.kwargs)
        scores, targets, blank = given.get("log_probs"), given.get("targets"), given.get("blank", 0)
        if not isinstance(scores, Tensor) or not scores.requires_grad or not scores.ndim or not isinstance(blank, int):
            return
        if not is_plain(targets) or not is_readable(targets) or targets.numel() > MOST or targets.is_floating_point():
            return
        real = _without_padding(targets, given.get("target_lengths"))
        if real is not None and real.numel():
            blanks = int((real == blank).sum())
            self.emit(CtcTargetsRead, call.place, blank, real.numel(), blanks, scores.shape[-1])


def _without_padding(targets: Tensor, lengths: Any) -> Tensor | None:
    """The targets that count; None where the lengths do not fit."""
    sizes = (
        torch.as_tensor(lengths).cpu().long().reshape(-1) if isinstance(lengths, (Tensor, list, tuple, int)) else None
    )
    if sizes is None or not sizes.numel():
        return None
    if targets.ndim == 1:
        count = int(sizes.sum())
        return targets[:count] if count <= len(targets) else None
    if targets.ndim != 2 or len(sizes) != len(targets) or int(sizes.max()) > targets.shape[1]:
        return None
    return targets[torch.arange(targets.shape[1])[None, :].to(targets.device) < sizes[:, None].to(targets.device)]
