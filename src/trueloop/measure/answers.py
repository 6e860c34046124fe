"""Outputs of a model beside the targets they are compared with: how many are right, and whether labels are mixed up."""

from collections import deque
from collections.abc import Collection
from typing import Final, Literal, NamedTuple

import torch
from torch import Tensor

__all__ = ["Answers", "Judged", "judge"]

Kind = Literal["classes", "labels", "amounts"]

KEPT: Final = 16  # calls
MOST_TARGETS: Final = 4096
LEAST_ROWS: Final = 100
LEAST_OF_LABEL: Final = 12  # rows
OWN: Final = 0.15  # of a label: its own output gives it no better
OTHERS: Final = 0.5  # of a label: a different output gives it
MOST_MOVED: Final = 0.7  # of the labels: with fewer, those that moved must have changed places among themselves
SURELY: Final = 0.6  # of a class: share of its rows that get one and the same different class


class Judged(NamedTuple):
    kind: Kind
    rows: int
    score: float  # share of classes that are right; of labels and amounts the correlation (labels: mean)
    chance: float  # share of the most frequent class; of others 0
    relation: float  # correlation of outputs and targets, of classes that of probabilities, mean over the classes
    moved: tuple[tuple[int, int], ...]  # labels, each with the output that gives it, where that is a different one


class _Batch(NamedTuple):
    step: int
    digests: list[int]
    outputs: Tensor


class Answers:
    """The latest calls of a model in one phase, and the targets of their rows, whenever those were seen."""

    def __init__(self) -> None:
        self._batches: deque[_Batch] = deque(maxlen=KEPT)
        self._targets: dict[int, Tensor] = {}  # by the digest of the row

    @property
    def step(self) -> int:
        return self._batches[-1].step

    def add(self, step: int, digests: list[int], outputs: Tensor) -> None:
        if len(digests) == len(outputs):
            self._batches.append(_Batch(step, digests, outputs))

    def add_targets(self, targets: Tensor) -> None:
        """Those of the latest call."""
        if self._batches and len(targets) == len(self._batches[-1].digests) and len(self._targets) < MOST_TARGETS:
            self._targets.update(zip(self._batches[-1].digests, targets, strict=True))

    def latest(self, without: Collection[int] = (), mixed: bool = False) -> tuple[Tensor, Tensor] | None:
        """Outputs and targets of different rows: of the latest evaluation, or (`mixed`) of all that is kept."""
        seen = set(without)
        outputs: list[Tensor] = []
        targets: list[Tensor] = []
        for batch in reversed(self._batches):
            if batch.step < self.step and not mixed:
                break
            for digest, output in zip(batch.digests, batch.outputs, strict=True):
                target = self._targets.get(digest)
                if target is None or digest in seen:
                    continue
                if not outputs or (output.shape == outputs[0].shape and target.shape == targets[0].shape):
                    seen.add(digest)
                    outputs.append(output)
                    targets.append(target)
        return (torch.stack(outputs).double(), torch.stack(targets).double()) if outputs else None


def judge(answers: tuple[Tensor, Tensor] | None) -> Judged | None:
    """None: too few rows, or outputs and targets of different kinds."""
    if answers is None or len(answers[0]) < LEAST_ROWS:
        return None
    outputs, targets = answers
    if not bool(outputs.isfinite().all() and targets.isfinite().all()):
        return None
    width, whole = outputs.shape[1], bool((targets == targets.round()).all())
    if targets.shape[1] == 1 and width > 1:
        classes = targets.reshape(-1).long()
        if not whole or int(classes.min()) < 0 or int(classes.max()) >= width or len(torch.unique(classes)) < 2:
            return None
        return _classes(outputs, classes)
    if targets.shape[1] != width:
        return None
    table = _correlations(outputs, targets)
    mean = table.diagonal().mean().item()
    if width == 1:
        return Judged("amounts", len(outputs), mean, 0.0, mean, ())
    moved = _moved(table, (targets != targets[:1]).sum(0) >= LEAST_OF_LABEL, OTHERS)
    return Judged("labels", len(outputs), mean, 0.0, mean, moved)


def _classes(outputs: Tensor, classes: Tensor) -> Judged:
    answers = outputs.argmax(1)
    counts = torch.bincount(classes, minlength=outputs.shape[1])
    table = torch.zeros(len(counts), len(counts), dtype=torch.double)
    table.index_put_((classes, answers), torch.ones(len(classes), dtype=torch.double), accumulate=True)
    recalls = table / counts.clamp_min(1).unsqueeze(1)
    score = (answers == classes).double().mean().item()
    moved = _moved(recalls, counts >= LEAST_OF_LABEL, SURELY)
    truth, answered = torch.nn.functional.one_hot(classes, len(counts)).double(), outputs.softmax(1)
    if bool((counts >= LEAST_OF_LABEL).any()):
        relation = _correlations(answered, truth).diagonal()[counts >= LEAST_OF_LABEL].mean().item()
    else:  # many classes of a few rows each: all in one
        relation = _correlations(answered.reshape(-1, 1), truth.reshape(-1, 1)).item()
    return Judged("classes", len(classes), score, counts.max().item() / len(classes), relation, moved)


def _correlations(outputs: Tensor, targets: Tensor) -> Tensor:
    """Of each target column with each output column."""
    one, other = (t - t.mean(0) for t in (targets, outputs))
    table: Tensor = one.T @ other / (one.norm(dim=0).unsqueeze(1) * other.norm(dim=0)).clamp_min(1e-12)
    return table


def _moved(table: Tensor, enough: Tensor, surely: float) -> tuple[tuple[int, int], ...]:
    """Labels that a different output gives, one to one: a permutation of these labels, by which they were renamed."""
    best = table.argmax(1).tolist()
    pairs = {
        label: best[label]
        for label in range(len(best))
        if bool(enough[label]) and best[label] != label
        and table[label, best[label]] >= surely and table[label, label] <= OWN
    }  # fmt: skip
    closed = set(pairs) == set(pairs.values()) or len(pairs) >= max(3, MOST_MOVED * int(enough.sum()))
    return tuple(pairs.items()) if closed and len(set(pairs.values())) == len(pairs) else ()
