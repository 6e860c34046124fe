"""How far steps move the weights: measured on a few steps, ever further apart, by some elements of some weights.

Kept between measurements: at most a thousand elements of at most eight weights. Vectors (biases, gains) do not count,
nor embeddings, of which a batch touches some rows.
"""

import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from trueloop.event import WeightMove, WeightsMoved
from trueloop.measure.parameters import parameters_of
from trueloop.measure.tensors import is_plain, on_host, read_numbers
from trueloop.observers.observer import Observer
from trueloop.taps.calls import RunEnd, StepCall

__all__ = ["WeightUpdatesObserver"]

WEIGHTS: Final = 8  # weights of an optimizer to measure, from its first to its last
NUMBERS: Final = 1024  # elements of a weight to measure, evenly spaced: enough for a norm within a few percent
SMALLEST: Final = 16  # fewest elements for a meaningful norm
FIRST: Final = 4  # steps before the second measurement: the first updates of Adam and of a warm-up are unusual


@dataclass(slots=True)
class _Weight:
    """One weight, and its values at the first measurement."""

    ref: weakref.ref[Tensor]
    name: str
    first: Tensor  # our own copy of some elements
    length: float


@dataclass(slots=True)
class _Before:
    """A weight right before a step."""

    numbers: Tensor  # our own copy
    pull: Tensor  # gradient norm times weight norm


@dataclass(slots=True)
class _Record:
    """One optimizer since its first measurement."""

    optimizer: weakref.ref[Optimizer]
    held: int  # number of its parameters then
    began: int  # steps it had taken then
    weights: list[_Weight]
    due: int  # steps since then at which to measure next
    reported: int = 0  # steps at the latest measurement


class WeightUpdatesObserver(Observer):
    emits = (WeightsMoved,)

    def prepare(self) -> None:
        self._records: dict[int, _Record] = {}
        self._before: tuple[int, list[_Before | None]] | None = None
        """The optimizer whose step is being measured, and its weights before it."""

    def step_started(self, call: StepCall) -> None:
        number = self.objects.optimizer(call.optimizer).number
        record = self._records.get(number)
        if record is not None and call.index - record.began < record.due:
            return
        self._before = None
        if call.closure or (torch.cuda.is_available() and torch.cuda.is_current_stream_capturing()):
            return
        held = sum(1 for _ in parameters_of(call.optimizer))
        if record is None or record.held != held:
            self._forget_freed()
            weights = self._chosen(call.optimizer)
            self._records[number] = _Record(weakref.ref(call.optimizer), held, call.index, weights, FIRST)
            return
        while record.due <= call.index - record.began:  # some steps may be unseen
            record.due = _after(record.due)
        self._before = (number, [_before(weight.ref()) for weight in record.weights])

    def step_ended(self, call: StepCall) -> None:
        if self._before is None:
            return
        number = self.objects.optimizer(call.optimizer).number
        if self._before[0] == number:
            before, self._before = self._before[1], None
            record = self._records[number]
            self._report(call.optimizer, number, record, call.index + 1 - record.began, before)

    def run_ended(self, end: RunEnd) -> None:
        for number, record in self._records.items():
            optimizer, steps = record.optimizer(), self.bus.steps_taken[number] - record.began
            if optimizer is not None and steps > record.reported:
                self._report(optimizer, number, record, steps, None)

    def _forget_freed(self) -> None:
        for number in [number for number, record in self._records.items() if record.optimizer() is None]:
            del self._records[number]

    def _chosen(self, optimizer: Optimizer) -> list[_Weight]:
        modules = (module for _, model in self.objects.living_models() for module in model.modules())
        embeddings = {id(each.weight) for each in modules if isinstance(each, (nn.Embedding, nn.EmbeddingBag))}
        fit = [p for p in parameters_of(optimizer) if _is_measurable(p) and id(p) not in embeddings]
        chosen = fit[:: max(1, -(-len(fit) // WEIGHTS))]
        copies = [_numbers(p).clone() for p in chosen]
        lengths = read_numbers([copy.square().mean().sqrt() for copy in copies])
        names, refs = map(self.objects.name_of, chosen), map(weakref.ref, chosen)
        return [_Weight(*weight) for weight in zip(refs, names, copies, lengths, strict=True)]

    def _report(
        self, optimizer: Optimizer, number: int, record: _Record, steps: int, before: list[_Before | None] | None
    ) -> None:
        record.reported = steps
        moves = tuple(_moves(record.weights, before))
        if not moves:
            return
        known = self.objects.optimizer(optimizer)
        rate = max((float(group.get("lr", 0.0)) for group in optimizer.param_groups), default=0.0)
        self.emit(WeightsMoved, known.place, number, known.name, steps, rate, moves)


def _after(due: int) -> int:
    """4, 6, 8, 12, 16, 24, 32 ...: two measurements per doubling."""
    return due * 3 // 2 if due & (due - 1) == 0 else due * 4 // 3


def _is_measurable(parameter: object) -> bool:
    """A dense floating-point matrix, or more, complete on this machine."""
    if not is_plain(parameter):
        return False
    dense = parameter.layout is torch.strided and not parameter.is_meta and parameter.is_floating_point()
    matrix = parameter.requires_grad and parameter.dim() >= 2 and parameter.numel() >= SMALLEST
    return dense and matrix and _is_contiguous(parameter)


def _is_contiguous(parameter: Tensor) -> bool:
    """Its elements are contiguous in memory, so that some can be picked without a copy of all."""
    channels_last = parameter.dim() == 4 and parameter.is_contiguous(memory_format=torch.channels_last)
    return channels_last or parameter.is_contiguous()


def _numbers(parameter: Tensor) -> Tensor:
    """Some elements of a weight, evenly spaced in memory; a view where it is on the CPU already."""
    apart = -(-parameter.numel() // NUMBERS)
    return on_host(parameter.detach().as_strided((parameter.numel() // apart,), (apart,))).float()


def _before(parameter: Tensor | None) -> _Before | None:
    """None for a weight that this step does not change."""
    gradient = None if parameter is None else parameter.grad
    if parameter is None or gradient is None or gradient.layout is not torch.strided or not _is_contiguous(parameter):
        return None
    numbers = _numbers(parameter).clone()
    pull = _numbers(gradient).norm() * numbers.norm() if _is_contiguous(gradient) else numbers.new_zeros(())
    return _Before(numbers, pull * (parameter.numel() / numbers.numel()))


def _moves(weights: list[_Weight], before: list[_Before | None] | None) -> Iterator[WeightMove]:
    """The moves of weights with a gradient; without a step, of all living weights."""
    found: list[tuple[_Weight, Tensor]] = []
    numbers: list[Tensor] = []
    with torch.no_grad():
        for weight, earlier in zip(weights, before or [None] * len(weights), strict=True):
            parameter = weight.ref()
            if parameter is None or (before is not None and earlier is None) or not _is_contiguous(parameter):
                continue
            now = _numbers(parameter)
            if now.shape != weight.first.shape or now.device != weight.first.device:  # moved to a device since
                continue
            base = weight.first if earlier is None else earlier.numbers
            found.append((weight, parameter))
            numbers += [(now - base).norm() / base.norm(), (now - weight.first).norm() / weight.first.norm()]
            numbers.append(now.new_zeros(()) if earlier is None else earlier.pull)
    values = read_numbers(numbers)
    for (weight, parameter), update, traveled, pull in zip(found, values[::3], values[1::3], values[2::3], strict=True):
        by_step = (None, None) if before is None else (update, pull)
        yield WeightMove(weight.name, parameter.numel(), weight.length, by_step[0], traveled, by_step[1])
