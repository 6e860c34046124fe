"""The float model's outputs and metric on validation samples, and how far a quantized model is from them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, final

import torch
from torch import Tensor, nn

from trueloop.data.source import Batch, tensors_in
from trueloop.engine.call_model import call_model
from trueloop.export.compare import Metrics, error_between
from trueloop.export.program import scores_of
from trueloop.export.trained_model import TrainedModel
from trueloop.measure.randomness import fence

__all__ = ["Baseline", "Measurement", "measure_baseline"]

BATCH: Final = 128


@dataclass(frozen=True, slots=True)
class Measurement:
    metric: float
    error: float  # RMS difference of the outputs from the float model's, relative to their RMS
    largest: float  # Largest difference of an output


@final
@dataclass(frozen=True)
class Baseline:
    """Prepared validation samples and the float model's outputs."""

    trained: TrainedModel
    batches: Sequence[Batch]
    outputs: Sequence[tuple[Tensor, ...]]
    metric: float
    numbers: Tensor  # Indices of the samples: calibration must not use them
    squares: float = field(repr=False)

    @property
    def samples(self) -> int:
        return len(self.numbers)

    def measure(self, model: nn.Module) -> Measurement:
        metrics = Metrics(self.trained.task)
        squares = largest = 0.0
        for batch, ours in zip(self.batches, self.outputs, strict=True):
            output = _output(model, batch.inputs)
            metrics.add(output, batch)
            for a, b in zip(ours, tensors_in(output), strict=True):
                squares += float((a.double() - b.double()).square().sum())
                largest = max(largest, error_between(a, b))
        error = math.sqrt(squares / (self.squares or 1.0))
        return Measurement(metrics.values()[self.trained.task.metric], error, largest)

    def subset(self, samples: int) -> Baseline:
        """With fewer samples, evenly spread."""
        if samples >= self.samples:
            return self
        return _baseline(self.trained, self.trained.model, self.numbers[_spread(samples, self.samples)])


def measure_baseline(trained: TrainedModel, model: nn.Module, samples: int | None) -> Baseline:
    """`samples`: how many, evenly spread; None: all. Of training data at most half: the rest is for calibration."""
    source = trained.source[1]
    most = max(1, len(source) // 2) if source is trained.splits.train else len(source)
    return _baseline(trained, model, _spread(most if samples is None else min(samples, most), len(source)))


def _spread(count: int, over: int) -> Tensor:
    return torch.arange(count) * over // count


def _baseline(trained: TrainedModel, model: nn.Module, numbers: Tensor) -> Baseline:
    prepare, metrics = trained.splits.prepare, Metrics(trained.task)
    batches, outputs, squares = [], [], 0.0
    for part in torch.split(numbers, BATCH):
        raw = trained.fetch(part)
        batch = Batch(raw.inputs if prepare is None else prepare(raw.inputs), raw.targets)
        output = _output(model, batch.inputs)
        metrics.add(output, batch)
        batches.append(batch)
        outputs.append(tuple(tensors_in(output)))
        squares += sum(float(tensor.double().square().sum()) for tensor in outputs[-1])
    return Baseline(trained, batches, outputs, metrics.values()[trained.task.metric], numbers, squares)


def _output(model: nn.Module, inputs: Any) -> Any:
    with torch.no_grad(), fence():
        return scores_of(call_model(model, _copy(inputs)))


def _copy(inputs: Any) -> Any:
    """The model may write into its inputs."""
    if isinstance(inputs, Tensor):
        return inputs.clone()
    if isinstance(inputs, dict):
        return {name: _copy(value) for name, value in inputs.items()}
    return type(inputs)(_copy(value) for value in inputs)
