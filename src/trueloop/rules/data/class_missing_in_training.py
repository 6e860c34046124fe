"""DAT122 class-missing-in-training: the evaluation has labels of a class that the training never shows.

What it sees
------------
The class labels that `cross_entropy` or `nll_loss` was given in training and in evaluation. A class with several
labels in evaluation has none in training, where 20 or more would be expected from its share in evaluation.

Why it hurts
------------
The model cannot learn a class that it never sees: a shard that was left out or read twice, a split that was sorted by
class, two label encodings.

Evidence
--------
The classes, and how many labels of each were evaluated.

Use instead
-----------
Split at random or by class (stratified), and compare `train_labels.unique()` with `valid_labels.unique()`.

When it is fine
---------------
Not reported: fewer than 200 training labels, fewer than 5 labels of the class, rare classes, more than 50 classes, and
runs of which not every training label was read (on a device, on unwatched steps, or more than 100,000), and labels
that are places in the batch (`torch.arange(len(scores))`, as with in-batch negatives). In zero-shot learning this is
the task: allow it there.
"""

from collections import Counter
from typing import Final

from trueloop.event import RowsCompared, RunEnded, TargetsSummarized
from trueloop.event.operation_names import CLASS_LOSSES
from trueloop.rules.rule import Findings, Rule, Severity

__all__ = ["ClassMissingInTraining"]

LABELS: Final = 200
LEAST: Final = 5
CLASSES: Final = 50
EXPECTED: Final = 20  # training labels of a class, from its share in the evaluation


class ClassMissingInTraining(Rule, code="DAT122", severity=Severity.WARNING):
    not_applicable = "no loss was computed on class labels both in training and in evaluation"

    def __init__(self) -> None:
        self._trained: dict[int, Counter[float]] = {}
        self._evaluated: dict[int, tuple[TargetsSummarized, dict[float, int]]] = {}
        self._unread: set[int] = set()
        self._rows: dict[int, int] = {}  # distinct training rows: labels are counted again in every epoch

    def on_targets_summarized(self, event: TargetsSummarized) -> None:
        if event.function not in CLASS_LOSSES:
            return
        unread = event.read_calls < event.calls or not (event.training and event.training.classes)
        if event.places or (event.calls and unread):
            self._unread.add(event.model)
        elif event.training is not None:
            self._trained.setdefault(event.model, Counter()).update(dict(event.training.classes))
        if event.evaluation is not None and event.evaluation.classes:
            self._evaluated[event.model] = (event, dict(event.evaluation.classes))

    def on_rows_compared(self, event: RowsCompared) -> None:
        self._rows[event.model] = event.training_rows

    def on_run_ended(self, ended: RunEnded) -> Findings:
        if ended.unwatched_steps:
            return
        for model, (event, classes) in self._evaluated.items():
            trained = self._trained.get(model, Counter())
            if trained.total() < LABELS or len(trained) > CLASSES or model in self._unread:
                continue
            labels = min(trained.total(), self._rows.get(model, trained.total()))
            expected = labels / sum(classes.values())  # training labels for each label of the evaluation
            missing = {
                value: count
                for value, count in classes.items()
                if value not in trained and count >= LEAST and count * expected >= EXPECTED
            }
            if not missing:
                continue
            names = ", ".join(f"{value:g} ({count} labels)" for value, count in list(missing.items())[:4])
            yield self.finding(
                event,
                f"The evaluation has class {names}, of which the training shows none in {trained.total():,} labels.",
                fix="Check the split and the list of files; every class must be in the training data.",
                evidence={"missing": {f"{v:g}": c for v, c in missing.items()}, "training_classes": len(trained)},
            )
