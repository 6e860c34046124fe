"""DAT122 class-missing-in-training: the evaluation has labels of a class that the training never shows.

What it sees
------------
The class labels that loss functions were given in training and in evaluation. A class with several labels in
evaluation has none in training.

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
Not reported: fewer than 200 training labels, fewer than 5 labels of the class, and more than 50 classes. In zero-shot
learning this is the task: allow it there.
"""

from typing import Final

from trueloop.event import TargetsSummarized
from trueloop.rules.rule import Findings, Rule, Severity

__all__ = ["ClassMissingInTraining"]

LABELS: Final = 200
LEAST: Final = 5
CLASSES: Final = 50


class ClassMissingInTraining(Rule, code="DAT122", severity=Severity.WARNING):
    not_applicable = "no loss was computed on class labels both in training and in evaluation"

    def __init__(self) -> None:
        self._trained: dict[int, dict[float, int]] = {}
        self._evaluated: dict[int, tuple[TargetsSummarized, dict[float, int]]] = {}

    def on_targets_summarized(self, event: TargetsSummarized) -> None:
        if event.function not in ("cross_entropy", "nll_loss"):
            return
        if event.training is not None and event.training.classes:
            self._trained.setdefault(event.model, {}).update(dict(event.training.classes))
        if event.evaluation is not None and event.evaluation.classes:
            self._evaluated[event.model] = (event, dict(event.evaluation.classes))

    def on_run_ended(self, _: object) -> Findings:
        for model, (event, classes) in self._evaluated.items():
            trained = self._trained.get(model, {})
            if sum(trained.values()) < LABELS or len(trained) > CLASSES:
                continue
            missing = {value: count for value, count in classes.items() if value not in trained and count >= LEAST}
            if not missing:
                continue
            names = ", ".join(f"{value:g} ({count} labels)" for value, count in list(missing.items())[:4])
            yield self.finding(
                event,
                f"The evaluation has class {names}, of which the training shows none in {sum(trained.values()):,} "
                "labels.",
                fix="Check the split and the list of files; every class must be in the training data.",
                evidence={"missing": {f"{v:g}": c for v, c in missing.items()}, "training_classes": len(trained)},
            )
