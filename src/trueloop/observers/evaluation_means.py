"""Evaluation passes: samples per batch, the mean loss per batch and per sample, and that loss over the run."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import torch
from torch import Tensor

from trueloop.event import EvaluationCurve, EvaluationPass, Place
from trueloop.measure.tensors import is_plain, is_readable
from trueloop.observers.observer import Observer
from trueloop.taps.calls import LoaderStart, LossCall, ModuleCall, RunEnd, tensors_in
from trueloop.taps.names import names_of

__all__ = ["EvaluationMeansObserver"]

PASSES: Final = 8  # passes to emit: all are alike
CURVE: Final = 400  # passes of one kind in the curve
BATCHES: Final = 4096  # batches of a pass to remember


_Kind = tuple[int, Place | None, int, int]  # Model, loss, loader and number of samples


@dataclass(slots=True)
class _Pass:
    """Calls of one model at one line, without gradients."""

    model: int
    place: Place | None
    sizes: list[int] = field(default_factory=list)
    losses: list[tuple[float, int]] = field(default_factory=list)  # (mean loss, samples)
    on_device: list[tuple[Tensor, int]] = field(default_factory=list)  # the same, for the curve of the run: read later
    loss_place: Place | None = None
    loader: int = -1
    step: int = 0


class EvaluationMeansObserver(Observer):
    emits = (EvaluationPass, EvaluationCurve)

    def prepare(self) -> None:
        self._pass: _Pass | None = None
        self._left = PASSES
        self._loader = -1
        self._names: dict[int, tuple[str, ...]] = {}
        self._curves: dict[_Kind, list[tuple[int, float]]] = {}

    def loader_started(self, start: LoaderStart) -> None:
        self._close()
        self._loader = self.bus.ordinal("loader", start.loader)
        if self._loader not in self._names:
            self._names[self._loader] = names_of((start.loader, start.loader.dataset))

    def module_call_ended(self, call: ModuleCall) -> None:
        if call.grad:
            if self._pass is not None:
                self._close()
            return
        known = self.objects.model(call.module)
        first = next(tensors_in((call.args, call.kwargs), limit=4), None)
        if known is None or call.failed or first is None or not first.dim():
            return
        if self._pass is None or (self._pass.model, self._pass.place) != (known.number, call.place):
            self._close()
            self._pass = _Pass(known.number, call.place, loader=self._loader, step=self.bus.step)
        if len(self._pass.sizes) < BATCHES:
            self._pass.sizes.append(first.shape[0])

    def loss_called(self, loss: LossCall) -> None:
        current, output = self._pass, loss.output
        mean = str(loss.options.get("reduction", "mean")) == "mean"
        if current is None or output.requires_grad or output.dim() or not mean:
            return
        current.loss_place = loss.place
        on_cpu = output.device.type == "cpu"  # elsewhere a read makes the host wait
        if on_cpu and loss.input.dim() and len(current.losses) < BATCHES:
            with torch.no_grad():
                current.losses.append((float(output), loss.input.shape[0]))
        readable = not on_cpu and bool(loss.input.dim()) and is_plain(output) and is_readable(output)
        if readable and self.bus.step_log is not None and len(current.on_device) < BATCHES:
            current.on_device.append((output.detach().to(torch.float32, copy=True), loss.input.shape[0]))

    def run_ended(self, end: RunEnd) -> None:
        self._close()
        for (model, place, loader, samples), curve in self._curves.items():
            self.emit(EvaluationCurve, place, model, samples, tuple(curve), self._names.get(loader, ()))

    def _close(self) -> None:
        done, self._pass = self._pass, None
        if done is None or not done.sizes or len(done.sizes) == BATCHES:
            return
        self._log(done)
        by_batch = by_sample = None
        if len(done.losses) == len(done.sizes):
            by_batch = sum(loss for loss, _ in done.losses) / len(done.losses)
            by_sample = sum(loss * count for loss, count in done.losses) / sum(count for _, count in done.losses)
            curve = self._curves.setdefault((done.model, done.loss_place, done.loader, sum(done.sizes)), [])
            if len(curve) < CURVE and len(self._curves) <= CURVE:
                curve.append((done.step, by_sample))
        if len(done.sizes) > 1 and self._left:
            self._left -= 1
            self.emit(EvaluationPass, done.place, tuple(done.sizes), done.loss_place, by_batch, by_sample)

    def _log(self, done: _Pass) -> None:
        losses: Sequence[tuple[float | Tensor, int]] = done.losses or done.on_device
        if self.bus.step_log is not None and len(losses) == len(done.sizes):
            values, samples = [value for value, _ in losses], [count for _, count in losses]
            self.bus.step_log.evaluated(values, samples, self._names.get(done.loader, ()))
