"""DAT128 soft-targets-contradict-labels: the scores of the teacher are not those of the samples they are used for.

What it sees
------------
The same outputs go into two losses: one with class labels, for all rows or for the labeled ones, and one with scores
or probabilities of the same classes (a distillation). Over many training steps the class with the highest score is that
of the label no more often than scores of other rows would give it; or each label has, one to one, the highest score at
a different class.

Why it hurts
------------
Stored teacher outputs are in a different order than the samples (written in a shuffled pass, cut by position in the
batch), or the teacher numbers its classes differently. The student is taught the answers of other samples, or of other
classes, against its labels.

Evidence
--------
The number of rows, how often scores and labels agree, and how often by chance; or the classes that are exchanged.

Use instead
-----------
    loader = DataLoader(TensorDataset(images, teacher_logits, labels), shuffle=True)    # one order for all three
    teacher_logits = teacher_logits[:, [teacher_classes.index(name) for name in classes]]

When it is fine
---------------
Not reported: a weak teacher that is better than chance, scores in which no class stands out (uniform or smoothed
targets), scores at chance that a model computes in each step (it may be untrained), scores for other rows than the
labels (unlabeled batches), fewer than 300 rows, and two classes.
"""

from math import sqrt
from typing import Final

from trueloop.event import SoftTargetsCompared
from trueloop.rules.rule import Findings, Rule, Severity

__all__ = ["SoftTargetsContradictLabels"]

ROWS: Final = 300
STEPS: Final = 8
VAGUE: Final = 0.3
SIGMAS: Final = 3.0
RENAMED: Final = 0.5
SURELY: Final = 0.75  # of scores that a model computes: an untrained one maps few classes one to one by chance
MANY: Final = 8
SHOWN: Final = 4


class SoftTargetsContradictLabels(Rule, code="DAT128", severity=Severity.WARNING):
    not_applicable = "no outputs were fitted to both labels and scores"

    def on_soft_targets_compared(self, event: SoftTargetsCompared) -> Findings:
        if event.rows < ROWS or event.steps < STEPS or event.vague > VAGUE or event.classes < 3:
            return
        error = sqrt(max(event.chance, 0.01) * (1 - event.chance) / event.rows)
        sure = event.renamed >= (SURELY if event.live else RENAMED) and (event.classes >= MANY or not event.live)
        if len(event.codes) >= 2 and sure and event.agree <= RENAMED * event.renamed:
            pairs = ", ".join(f"label {label} at class {other}" for label, other in event.codes[:SHOWN])
            message = (
                f"The scores number the classes differently from the labels: {pairs} ({event.renamed:.0%} of "
                f"{event.rows} rows, {event.agree:.0%} with the numbers as they are)."
            )
            fix = "Sort the columns of the scores by the class names of the labels."
        elif event.agree <= event.chance + SIGMAS * error and event.renamed <= RENAMED and not event.live:
            message = (
                f"The highest score is that of the label in {event.agree:.0%} of {event.rows} rows; scores of other "
                f"rows give {event.chance:.0%}. The scores do not belong to these rows."
            )
            fix = "Store the scores with the keys of their samples, and take both from one dataset, so that one order "
            fix += "holds for both."
        else:
            return
        yield self.finding(
            event,
            message,
            fix=fix,
            evidence={"rows": event.rows, "agree": round(event.agree, 3), "chance": round(event.chance, 3),
                      "after_renaming": round(event.renamed, 3)},
        )  # fmt: skip
