"""DAT126 labels-renamed-in-evaluation: a different output of the model gives each label, one to one.

What it sees
------------
The outputs of a trained model beside the targets, for rows that it was not trained on. Some labels are hardly ever
given by their own output, and reliably by a different one; no two of them by the same. On training rows the model is
right.

Why it hurts
------------
The labels of the evaluation are numbered in a different order than those of the training: two label files, class names
that are sorted on one side only, a `set` that was enumerated. The score is that of a wrong dictionary, not of the
model.

Evidence
--------
The labels with the outputs that give them, the number of rows, and the correlation of outputs and targets in both
phases.

Use instead
-----------
    names = sorted(set(train_names))                    # one list, for both phases
    index = {name: number for number, name in enumerate(names)}

When it is fine
---------------
Not reported: labels that are merely confused, labels with fewer than 12 rows, fewer than 100 rows, fewer than two
renamed labels, and models that have not learned their training rows.
"""

from typing import Final

from trueloop.event import AnswersCompared
from trueloop.rules.rule import Findings, Rule, Severity

__all__ = ["LabelsRenamedInEvaluation"]

LEAST: Final = 2  # labels
LEARNED: Final = 0.4  # correlation of outputs and targets of training rows
SHOWN: Final = 5


class LabelsRenamedInEvaluation(Rule, code="DAT126", severity=Severity.ERROR):
    not_applicable = "no outputs were compared with labels in a recorded evaluation"

    def on_answers_compared(self, event: AnswersCompared) -> Findings:
        if len(event.moved) < LEAST or event.training is None or event.training < LEARNED:
            return
        if event.relation > event.training - LEARNED / 2:
            return
        pairs = ", ".join(f"label {label} by output {output}" for label, output in event.moved[:SHOWN])
        yield self.finding(
            event,
            f"In {event.rows} evaluated rows, {len(event.moved)} labels are given by other outputs than their own, one "
            f"to one: {pairs}. The labels of the evaluation are numbered differently from those of the training.",
            fix="Number the labels of both phases with one list of names.",
            evidence={"renamed": [list(pair) for pair in event.moved], "on_training_rows": round(event.training, 3),
                      "on_evaluated_rows": round(event.relation, 3), "rows": event.rows},
        )  # fmt: skip
