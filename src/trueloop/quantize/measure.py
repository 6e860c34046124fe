"""What a quantized model answers, beside what the float model answers, on validation samples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, final

import torch
from torch import Tensor, nn

from trueloop.data.source import Batch, tensors_in
from trueloop.export.compare import Metrics, error_between
from trueloop.export.program import scores_of
from trueloop.export.subject import Subject
from trueloop.measure.randomness import fence

__all__ = ["Measured", "Yardstick", "yardstick_of"]

BATCH: Final = 128


@dataclass(frozen=True, slots=True)
class Measured:
    """Of one model."""

    metric: float
    error: float
    """Of its outputs against the float model's: root mean square, as a part of that of the outputs."""
    largest: float
    """The largest difference of an output."""


@final
@dataclass(frozen=True)
class Yardstick:
    """Validation samples as the model takes them, and the float model's answers."""

    subject: Subject
    batches: Sequence[Batch]
    answers: Sequence[tuple[Tensor, ...]]
    before: float
    """The float model's metric."""
    numbers: Tensor
    """Which samples of the source: nothing may be calibrated on them."""
    squares: float = field(repr=False)

    @property
    def samples(self) -> int:
        return len(self.numbers)

    def measure(self, model: nn.Module) -> Measured:
        metrics = Metrics(self.subject.task)
        apart = largest = 0.0
        for batch, ours in zip(self.batches, self.answers, strict=True):
            output = _answer(model, batch.inputs)
            metrics.add(output, batch.targets)
            for a, b in zip(ours, tensors_in(output), strict=True):
                apart += float((a.double() - b.double()).square().sum())
                largest = max(largest, error_between(a, b))
        error = math.sqrt(apart / self.squares) if self.squares else math.sqrt(apart)
        return Measured(metrics.values()[self.subject.task.metric], error, largest)

    def fewer(self, samples: int) -> Yardstick:
        """The same with some of its samples, spread over all of them."""
        return (
            self
            if samples >= self.samples
            else _yardstick(self.subject, self.subject.model, self.numbers[_spread(samples, self.samples)])
        )


def yardstick_of(subject: Subject, model: nn.Module, samples: int | None) -> Yardstick:
    """`samples`: how many, spread over all; None: all. Where there are none but those that it learned from, half of
    them at most: the others are for calibration."""
    source = subject.source[1]
    most = max(1, len(source) // 2) if source is subject.splits.train else len(source)
    return _yardstick(subject, model, _spread(most if samples is None else min(samples, most), len(source)))


def _spread(count: int, over: int) -> Tensor:
    return torch.arange(count) * over // count


def _yardstick(subject: Subject, model: nn.Module, numbers: Tensor) -> Yardstick:
    prepare, metrics = subject.splits.prepare, Metrics(subject.task)
    batches, answers, squares = [], [], 0.0
    for part in torch.split(numbers, BATCH):
        raw = subject.fetch(part)
        batch = Batch(raw.inputs if prepare is None else prepare(raw.inputs), raw.targets)
        output = _answer(model, batch.inputs)
        metrics.add(output, batch.targets)
        batches.append(batch)
        answers.append(tuple(tensors_in(output)))
        squares += sum(float(tensor.double().square().sum()) for tensor in answers[-1])
    return Yardstick(subject, batches, answers, metrics.values()[subject.task.metric], numbers, squares)


def _answer(model: nn.Module, inputs: Any) -> Any:
    with torch.no_grad(), fence():
        return scores_of(model(_copied(inputs)))


def _copied(inputs: Any) -> Any:
    """A model that writes into what it is given must not change the yardstick."""
    if isinstance(inputs, Tensor):
        return inputs.clone()
    if isinstance(inputs, dict):
        return {name: _copied(value) for name, value in inputs.items()}
    return type(inputs)(_copied(value) for value in inputs)
