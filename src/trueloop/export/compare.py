"""Compare two sets of outputs: largest difference, changed predictions, metrics."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor

from trueloop.data.source import Batch
from trueloop.engine.task import Task

__all__ = ["Comparison", "Metrics", "error_between", "largest_in", "predictions"]


def error_between(ours: Tensor, theirs: Tensor) -> float:
    """The largest difference; infinite if the shapes differ or only one value is finite."""
    if ours.shape != theirs.shape:
        return math.inf
    if not ours.numel():
        return 0.0
    if ours.is_complex() != theirs.is_complex():
        return math.inf
    a, b = (torch.view_as_real(each.resolve_conj()) if each.is_complex() else each for each in (ours, theirs))
    a, b = a.double(), b.double()
    same = (a == b) | (a.isnan() & b.isnan())  # covers infinities of the same sign
    return float((a - b).abs().masked_fill(same, 0.0).nan_to_num(math.inf, math.inf).max())


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
    worst: int = -1  # Index of the batch with the largest difference
    seen: int = 0

    def add(self, ours: Sequence[Tensor], theirs: Sequence[Tensor], *, counted: bool) -> None:
        """`counted`: count its predictions; those of a truncated sequence are only compared as numbers."""
        error = max(map(error_between, ours, theirs), default=0.0) if len(ours) == len(theirs) else math.inf
        if error > self.max_error:
            self.max_error, self.worst = error, self.seen
        if self.task == "regression":
            # Targets have a unit: fp32 cannot hold 200,000 to four decimals.
            self.scale = max(self.scale, *map(largest_in, ours))
        self.seen += 1
        answers = predictions(self.task, ours[0]) if counted and theirs and ours[0].shape == theirs[0].shape else None
        others = predictions(self.task, theirs[0]) if answers is not None else None
        if answers is None or others is None:
            return
        differ = answers[0] != others[0]
        tied = differ & (answers[1] <= 2 * self.tolerance)  # both scores may have moved by the tolerance
        self.ties += int(tied.sum())
        self.disagreements += int((differ & ~tied).sum())


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
