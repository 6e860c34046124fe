"""Evaluation passes: samples per batch, and the mean loss per batch and per sample."""

from dataclasses import dataclass, field
from typing import Final

import torch

from trueloop.event import EvaluationPass, Place
from trueloop.observers.observer import Observer
from trueloop.taps.calls import LoaderStart, LossCall, ModuleCall, RunEnd, tensors_in

__all__ = ["EvaluationMeansObserver"]

PASSES: Final = 8  # passes to emit: all are alike
BATCHES: Final = 4096  # batches of a pass to remember


@dataclass(slots=True)
class _Pass:
    """Calls of one model at one line, without gradients."""

    model: int
    place: Place | None
    sizes: list[int] = field(default_factory=list)
    losses: list[tuple[float, int]] = field(default_factory=list)  # (mean loss, samples)
    loss_place: Place | None = None


class EvaluationMeansObserver(Observer):
    emits = (EvaluationPass,)

    def prepare(self) -> None:
        self._pass: _Pass | None = None
        self._left = PASSES

    def loader_started(self, start: LoaderStart) -> None:
        self._close()

    def module_call_ended(self, call: ModuleCall) -> None:
        if call.grad or not self._left:
            if self._pass is not None:
                self._close()
            return
        known = self.objects.model(call.module)
        first = next(tensors_in((call.args, call.kwargs), limit=4), None)
        if known is None or call.failed or first is None or not first.dim():
            return
        if self._pass is None or (self._pass.model, self._pass.place) != (known.number, call.place):
            self._close()
            self._pass = _Pass(known.number, call.place)
        if len(self._pass.sizes) < BATCHES:
            self._pass.sizes.append(first.shape[0])

    def loss_called(self, loss: LossCall) -> None:
        current, output = self._pass, loss.output
        mean = str(loss.options.get("reduction", "mean")) == "mean"
        if current is None or output.requires_grad or output.dim() or not mean:
            return
        current.loss_place = loss.place
        if (
            output.device.type == "cpu" and loss.input.dim() and len(current.losses) < BATCHES
        ):  # elsewhere a read makes the host wait
            with torch.no_grad():
                current.losses.append((float(output), loss.input.shape[0]))

    def run_ended(self, end: RunEnd) -> None:
        self._close()

    def _close(self) -> None:
        done, self._pass = self._pass, None
        if done is None or len(done.sizes) < 2 or len(done.sizes) == BATCHES:
            return
        self._left -= 1
        by_batch = by_sample = None
        if len(done.losses) == len(done.sizes):
            by_batch = sum(loss for loss, _ in done.losses) / len(done.losses)
            by_sample = sum(loss * count for loss, count in done.losses) / sum(count for _, count in done.losses)
        self.emit(EvaluationPass, done.place, tuple(done.sizes), done.loss_place, by_batch, by_sample)
