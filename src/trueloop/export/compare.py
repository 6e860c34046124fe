"""Compare two sets of outputs: largest difference, changed predictions, metrics."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, final

import torch
from torch import Tensor

from trueloop.data.source import Batch
from trueloop.engine.task import Task
from trueloop.results.artifact import OWN

__all__ = ["Comparison", "Metrics", "error_between", "largest_in", "predictions"]

QUANTITIES: Final = ("regression", OWN)  # Tasks whose outputs have a unit
ROUNDINGS: Final = 32  # Runtimes sum in different orders: each output may be off by some roundings of the model
SMALLEST: Final = 1e-30  # Smaller outputs are zero: runtimes flush them


def error_between(ours: Tensor, theirs: Tensor) -> float:
    """The largest difference; infinite if the shapes differ or only one value is finite."""
    if ours.shape != theirs.shape or ours.is_complex() != theirs.is_complex():
        return math.inf
    return float(_differences(ours, theirs).max()) if ours.numel() else 0.0


def _differences(ours: Tensor, theirs: Tensor) -> Tensor:
    """Of two tensors of the same shape."""
    a, b = (torch.view_as_real(each.resolve_conj()) if each.is_complex() else each for each in (ours, theirs))
    a, b = a.double(), b.double()
    same = (a == b) | (a.isnan() & b.isnan())  # covers infinities of the same sign
    return (a - b).abs().masked_fill(same, 0.0).nan_to_num(math.inf, math.inf)


def _largest_along(tensor: Tensor, dimension: int) -> Tensor:
    """The largest value of each index of a dimension; of all elements for dimension 0."""
    return tensor.movedim(dimension, -1).flatten(0, -2).amax(0) if dimension else tensor.amax()[None]


def largest_in(tensor: Tensor) -> float:
    """The largest absolute value among the finite ones."""
    finite = tensor.double().abs()
    finite = finite[finite.isfinite()]
    return float(finite.max()) if finite.numel() else 0.0


def predictions(task: str, output: Tensor) -> tuple[Tensor, Tensor] | None:
    """The predictions, and their margin over the next best one. None: regression has no discrete predictions."""
    match task:
        case "multiclass" | "language":
            scores = output.movedim(1, -1) if task == "multiclass" else output
            if scores.shape[-1] < 2:
                return None
            best = scores.double().topk(2, dim=-1)
            return scores.argmax(-1), best.values[..., 0] - best.values[..., 1]
        case "binary" | "multilabel":
            return output > 0, output.double().abs()
        case _:
            return None


Column = tuple[int, int, int]
"""Number of an output, a dimension of it, and the size of that dimension: sequences have several lengths."""


@final
@dataclass
class Comparison:
    """Accumulated over batches."""

    task: str
    tolerance: float
    max_error: float = 0.0
    scale: float = 1.0
    disagreements: int = 0
    ties: int = 0
    predicted: int = 0  # Predictions that were counted
    worst: int = -1  # Index of the batch with the largest difference
    seen: int = 0
    columns: dict[Column, tuple[Tensor, Tensor]] = field(default_factory=dict)
    """Largest difference and largest value of each column of an output. Quantities may have a unit each, along any of
    their dimensions; all other outputs are one column."""

    def add(self, ours: Sequence[Tensor], theirs: Sequence[Tensor], *, counted: bool) -> None:
        """`counted`: count its predictions; those of a truncated sequence are only compared as numbers."""
        error = max(map(error_between, ours, theirs), default=0.0) if len(ours) == len(theirs) else math.inf
        if error > self.max_error:
            self.max_error, self.worst = error, self.seen
        if self.task in QUANTITIES:
            # Targets have a unit: fp32 cannot hold 200,000 to four decimals.
            self.scale = max(self.scale, *map(largest_in, ours))
        self.seen += 1
        for at, (a, b) in enumerate(zip(ours, theirs, strict=False)):
            self._add_columns(at, a, b)
        answers = predictions(self.task, ours[0]) if counted and theirs and ours[0].shape == theirs[0].shape else None
        others = predictions(self.task, theirs[0]) if answers is not None else None
        if answers is None or others is None:
            return
        self.predicted += answers[0].numel()
        differ = answers[0] != others[0]
        tied = differ & (answers[1] <= 2 * self.tolerance)  # both scores may have moved by the tolerance
        self.ties += int(tied.sum())
        self.disagreements += int((differ & ~tied).sum())

    def _add_columns(self, at: int, ours: Tensor, theirs: Tensor) -> None:
        if ours.shape != theirs.shape or not ours.is_floating_point() or not ours.numel():
            return  # whole numbers are equal or not
        differences, values = _differences(ours, theirs), ours.double().abs().nan_to_num(0.0, 0.0)
        for dimension in range(1, ours.dim()) if self.task in QUANTITIES and ours.dim() > 1 else (0,):
            column = (at, dimension, ours.shape[dimension] if dimension else 1)
            errors, largest = _largest_along(differences, dimension), _largest_along(values, dimension)
            if column in self.columns:
                before = self.columns[column]
                errors, largest = torch.maximum(errors, before[0]), torch.maximum(largest, before[1])
            self.columns[column] = errors, largest

    def without_differences(self) -> Comparison:
        """For inputs beyond the data: it knows how large the outputs are, and no difference yet."""
        columns = {column: (torch.zeros_like(errors), largest) for column, (errors, largest) in self.columns.items()}
        return Comparison(self.task, self.tolerance, columns=columns)

    def relative_error(self, rounding: Comparison | None = None) -> float:
        """The largest difference of a column, as a share of its largest value. `rounding`: a comparison whose
        differences are rounding; those of a few times this size do not count."""
        found = 0.0
        for column, (errors, largest) in self.columns.items():
            noise = ROUNDINGS * rounding.columns[column][0] if rounding is not None else torch.zeros_like(errors)
            errors = errors.masked_fill(errors <= noise, 0.0)
            shares = errors / largest.clamp(min=SMALLEST)
            found = max(found, float(shares.masked_fill(errors <= SMALLEST, 0.0).max()))
        return found


@final
class Metrics:
    """Metrics from sums over all samples."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.sums: dict[str, float] = dict.fromkeys(("loss", "count", *task.sums), 0.0)

    def add(self, output: Any, batch: Batch) -> None:
        with torch.no_grad():
            found, count = self.task.loss_and_count(output, batch)
            self.sums["loss"] += float(found.total)
            self.sums["count"] += float(count)
            for name, value in (*found.parts.items(), *self.task.measures(output, batch.targets).items()):
                self.sums[name] = self.sums.get(name, 0.0) + float(value)

    def values(self) -> dict[str, float]:
        return self.task.metrics(self.sums) if self.sums["count"] else {}
