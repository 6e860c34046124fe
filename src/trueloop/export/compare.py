"""Two sets of answers side by side: how far apart the numbers are, how many predictions are others, what the metrics
make of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, final

import torch
from torch import Tensor

from trueloop.engine.task import Task

__all__ = ["Compared", "Metrics", "error_between", "largest_in", "predictions"]


def error_between(ours: Tensor, theirs: Tensor) -> float:
    """The largest difference; infinite where only one is a number, or the shapes are others."""
    if ours.shape != theirs.shape:
        return math.inf
    if not ours.numel():
        return 0.0
    if ours.is_complex() != theirs.is_complex():
        return math.inf
    a, b = (torch.view_as_real(each.resolve_conj()) if each.is_complex() else each for each in (ours, theirs))
    a, b = a.double(), b.double()
    same = (a == b) | (a.isnan() & b.isnan())  # two infinities of one sign are the same answer too
    return float((a - b).abs().masked_fill(same, 0.0).nan_to_num(math.inf, math.inf).max())


def largest_in(tensor: Tensor) -> float:
    """The largest number without its sign, of those that are numbers."""
    finite = tensor.double().abs()
    finite = finite[finite.isfinite()]
    return float(finite.max()) if finite.numel() else 0.0


def predictions(task: str, output: Tensor) -> tuple[Tensor, Tensor] | None:
    """What is answered, and by how much: the distance to the next best answer. None: quantities are no predictions."""
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
class Compared:
    """Added up over batches."""

    task: str
    tolerance: float
    max_error: float = 0.0
    scale: float = 1.0
    disagreements: int = 0
    ties: int = 0
    worst: int = -1
    """Number of the batch with the largest difference."""
    seen: int = field(default=0)

    def add(self, ours: Sequence[Tensor], theirs: Sequence[Tensor], *, counted: bool) -> None:
        """`counted`: its predictions count; those of a sequence that was cut short are only compared as numbers."""
        error = max(map(error_between, ours, theirs), default=0.0) if len(ours) == len(theirs) else math.inf
        if error > self.max_error:
            self.max_error, self.worst = error, self.seen
        if self.task == "regression":
            # In a unit of their own: 200,000 euros cannot be right to a hundredth of a cent in numbers of seven digits.
            self.scale = max(self.scale, *map(largest_in, ours))
        self.seen += 1
        answers = predictions(self.task, ours[0]) if counted and theirs and ours[0].shape == theirs[0].shape else None
        others = predictions(self.task, theirs[0]) if answers is not None else None
        if answers is None or others is None:
            return
        differ = answers[0] != others[0]
        # Both scores may have moved by the tolerance, towards each other.
        tied = differ & (answers[1] <= 2 * self.tolerance)
        self.ties += int(tied.sum())
        self.disagreements += int((differ & ~tied).sum())


@final
class Metrics:
    """Of one side, from sums over all samples."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.sums: dict[str, float] = dict.fromkeys(("loss", "count", *task.sums), 0.0)

    def add(self, output: Any, targets: Any) -> None:
        with torch.no_grad():
            self.sums["loss"] += float(self.task.loss_sum(output, targets))
            self.sums["count"] += float(self.task.count(targets))
            for name, value in self.task.measures(output, targets).items():
                self.sums[name] += float(value)

    def values(self) -> dict[str, float]:
        return self.task.metrics(self.sums) if self.sums["count"] else {}
