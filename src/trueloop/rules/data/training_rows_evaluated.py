"""DAT119 training-rows-evaluated: rows, or pieces of windows, that a model was trained on come back in its evaluation.

What it sees
------------
The inputs of a model are recognized by their content, however the batches were cut. Some rows of an evaluating line
were trained on, or the windows that it evaluates share stretches of numbers with windows that were trained on. In a
cross-validation, one model goes through all folds: rows of its earlier folds are held out now, and rows that were held
out before are trained on. Rows are also recognized where each fold has its own scaling.

Why it hurts
------------
The model has seen the answers. Windows over one series that are split at random overlap in time: a validation window
has its neighbors, and their targets, in the training set. The score is too good by an unknown amount.

Evidence
--------
The number of rows that were evaluated and how many of them were trained on, or the share of windows whose last steps
lie inside training windows. With folds: the rows of a fold that earlier folds were trained on.

Use instead
-----------
    cut = int(0.8 * len(series))
    train, valid = windows(series[:cut]), windows(series[cut:])        # split first, then cut windows

    for train, valid in folds:
        model = build_model()                                          # a new model, and a new optimizer, per fold

When it is fine
---------------
Not reported: a score on training rows only, unless they are named validation or test, or on all of them; a part of the
training set of which some rows were not drawn yet (the gallery of a nearest-neighbor search); one function that scores
both sets, batch by batch; rows that are evaluated first and trained on later; targets that a model computes for its own
training (Q-learning); folds whose weights are reset before each of them; the past of a validation window, if its last
steps are new in one of their features (the tide and the time of day come back); rows with few distinct values, which
are equal by chance.
"""

from typing import Final

from trueloop.event import RowsCompared
from trueloop.rules.rule import Findings, Rule, Severity

__all__ = ["TrainingRowsEvaluated"]

ROWS: Final = 8
SHARE: Final = 0.05
WHOLE: Final = 0.9  # of the training rows
WINDOWS: Final = 0.5
LEAST_WINDOWS: Final = 32
UNKNOWN: Final = 2.0  # times the share of the training set that is not known: rows that are drawn more seldom
FOLDS: Final = 20  # evaluating calls: targets that a model computes for its own training come in every step
LATE: Final = 8  # windows that a training window continues: no window of another time has one


class TrainingRowsEvaluated(Rule, code="DAT119", severity=Severity.ERROR):
    not_applicable = "no model was called without gradients on rows of tensors"
    explained_by = ("train-validation-overlap",)

    def on_rows_compared(self, event: RowsCompared) -> Findings:
        folds = not event.alternating or event.calls <= FOLDS  # each fold is evaluated once, as a whole
        if event.folded >= ROWS and folds and not event.expected:
            yield self.finding(
                event,
                f"The {event.folded:,} rows that a later fold evaluates here were trained on in earlier folds by the "
                "same weights: one model goes through all folds.",
                fix="Build the model and the optimizer inside the loop over the folds.",
                evidence={"rows": event.folded, "training_rows": event.training_rows,
                          "training_at": event.training_place},
            )  # fmt: skip
            return
        if event.alternating or event.shared >= WHOLE * event.training_rows:
            return
        rows = event.named if _may_be_training_set(event) else max(event.mixed, event.named)
        if rows >= ROWS and rows >= SHARE * event.rows and rows > 3 * event.expected:
            yield self.finding(
                event,
                f"{rows:,} of {event.rows:,} rows that are evaluated here were trained on before.",
                fix="Split the data before rows are repeated, cut or sampled; no row may be on both sides.",
                evidence={"evaluated": event.rows, "trained_on": rows, "share": round(rows / event.rows, 3),
                          "by_chance": round(event.expected, 1), "training_rows": event.training_rows,
                          "training_at": event.training_place},
            )  # fmt: skip
            return
        known, windows = event.known_windows, event.windows
        if event.late_windows >= LATE:
            known, windows = event.late_windows, event.sampled_windows
        elif windows < LEAST_WINDOWS or known < WINDOWS * windows:
            return
        share = known / windows
        if share:
            yield self.finding(
                event,
                f"The last steps of {share:.0%} of the {windows:,} windows that are evaluated here lie inside "
                "training windows: the two sets overlap in time.",
                fix="Split the series in time first, then cut windows out of each part.",
                evidence={"windows": windows, "inside_training": known, "share": round(share, 3),
                          "training_at": event.training_place},
            )  # fmt: skip


def _may_be_training_set(event: RowsCompared) -> bool:
    """The rows that were not trained on are no more than those of the training set that were not drawn yet."""
    return event.shared >= (1 - UNKNOWN * (1 - event.coverage)) * event.rows
