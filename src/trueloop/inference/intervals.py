"""Confidence intervals of metrics: a bootstrap over samples.

Every metric that is computed from sums over samples (loss, accuracy, f1, mae, r2; a metric of your own that returns one
value per sample) gets one. Resampling adds up what each sample contributed; the model is not run again. A loss of your
own may depend on the batch, and a metric object keeps its own state: they get none.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, final

import numpy as np
import torch
from torch import Tensor

from trueloop.data.source import Batch, size_of
from trueloop.engine.precision import Precision
from trueloop.engine.task import Binary, Language, Multiclass, Multilabel, Regression, Task
from trueloop.engine.unprojected import Unprojected
from trueloop.recipe.call import required_parameters
from trueloop.recipe.recipe import Recipe

__all__ = ["RESAMPLES", "SampleSums"]

RESAMPLES: Final = 1000
SEED: Final = 0
PERCENTILES: Final = (2.5, 97.5)
BUILT_IN: Final = (Multiclass, Language, Binary, Multilabel, Regression)


@final
class SampleSums:
    """What each sample of an evaluation adds to the sums of the metrics."""

    def __init__(self, recipe: Recipe, task: Task, precision: Precision) -> None:
        # With carry a sample continues the one before: they are not independent.
        possible = recipe.evaluate is None and not recipe.carry
        self.task = task if possible and isinstance(task, BUILT_IN) else None
        self.own = {name: each for name, each in recipe.metrics.items() if possible and _is_function(each)}
        self.precision = precision
        self.rows: list[np.ndarray[Any, Any]] = []  # Of the task: [samples, 2 + its sums], per batch
        self.values: dict[str, list[np.ndarray[Any, Any]]] = {name: [] for name in self.own}

    @property
    def names(self) -> tuple[str, ...]:
        return ("loss", "count", *self.task.sums) if self.task is not None else ()

    def add(self, output: Any, batch: Batch) -> None:
        """A batch of an evaluation, with the model's output for it."""
        samples = size_of(batch.inputs)
        if self.task is not None:
            fits = isinstance(output, (Tensor, Unprojected)) and isinstance(batch.targets, Tensor)
            if fits and len(batch.targets) == samples:
                self.rows.append(self._task_rows(self.task, output, batch, samples))
            else:
                self.task = None
        for name, function in list(self.own.items()):
            value = function(output, batch.targets)
            if isinstance(value, Tensor) and value.dim() and len(value) == samples:
                flat = value.detach().double().reshape(samples, -1).cpu()
                count = torch.full((samples,), float(flat.shape[1]), dtype=torch.float64)
                self.values[name].append(torch.stack([flat.sum(1), count], 1).numpy())
            else:
                del self.own[name]  # a mean over the batch, or two sums

    def _task_rows(self, task: Task, output: Any, batch: Batch, samples: int) -> np.ndarray[Any, Any]:
        rows = []
        for number in range(samples):
            one = slice(number, number + 1)
            answer = Unprojected(output.hidden[one], output.weight) if isinstance(output, Unprojected) else output[one]
            target = batch.targets[one]
            with self.precision.autocast():
                total, count = task.loss_sum(answer, target), task.count(target)
            measures = task.measures(answer, target)
            rows.append(torch.stack([_wide(each, total) for each in (total, count, *map(measures.get, task.sums))]))
        return torch.stack(rows).cpu().double().numpy()

    def intervals(self) -> dict[str, tuple[float, float]]:
        """95%, by metric."""
        found: dict[str, tuple[float, float]] = {}
        if self.task is not None and self.rows:
            task, names = self.task, self.names

            def metrics(totals: np.ndarray[Any, Any]) -> Mapping[str, float]:
                return task.metrics(dict(zip(names, map(float, totals), strict=True)))

            found |= _bootstrap(np.concatenate(self.rows), metrics)
        for name in self.own:
            if self.values[name]:
                mean = _bootstrap(np.concatenate(self.values[name]), lambda sums: {"mean": float(sums[0] / sums[1])})
                found |= {name: mean["mean"]} if mean else {}
        return found


def _bootstrap(
    rows: np.ndarray[Any, Any], metrics: Callable[[np.ndarray[Any, Any]], Mapping[str, float]]
) -> dict[str, tuple[float, float]]:
    """`rows`: per sample; the second column is a count."""
    samples, draws = len(rows), np.random.default_rng(SEED)
    if samples < 2:
        return {}
    drawn: dict[str, list[float]] = {}
    for _ in range(RESAMPLES):
        totals = np.bincount(draws.integers(0, samples, samples), minlength=samples) @ rows
        if totals[1]:  # every target of this resample may be an ignored one
            for name, value in metrics(totals).items():
                drawn.setdefault(name, []).append(value)
    limits = {name: np.percentile(values, PERCENTILES) for name, values in drawn.items()}
    return {name: (float(low), float(high)) for name, (low, high) in limits.items()}


def _wide(value: Any, beside: Tensor) -> Tensor:
    wide = torch.float32 if beside.device.type == "mps" else torch.float64
    return torch.as_tensor(value, dtype=wide, device=beside.device).reshape(())


def _is_function(metric: Any) -> bool:
    """Not a class, a factory or an object with update, compute and reset."""
    return not isinstance(metric, type) and not hasattr(metric, "update") and bool(required_parameters(metric))
