"""DAT119 training-rows-evaluated: rows, or pieces of windows, that a model was trained on come back in its evaluation.

What it sees
------------
The inputs of a model are recognized by their content, however the batches were cut. Some rows of an evaluating line
were trained on, or the windows that it evaluates share stretches of numbers with windows that were trained on.

Why it hurts
------------
The model has seen the answers. Windows over one series that are split at random overlap in time: a validation window
has its neighbors, and their targets, in the training set. The score is too good by an unknown amount.

Evidence
--------
The number of rows that were evaluated and how many of them were trained on, or the share of equal stretches.

Use instead
-----------
    cut = int(0.8 * len(series))
    train, valid = windows(series[:cut]), windows(series[cut:])        # split first, then cut windows

When it is fine
---------------
Not reported: a score on all the training rows, or on some of them beside a real validation; rows that are common in
the training data itself; numbers with few distinct values, whose stretches repeat by chance.
"""

import math
from typing import Final, final

from trueloop.event import RowsCompared
from trueloop.finding import Severity
from trueloop.rules.rule import Findings, Rule

__all__ = ["TrainingRowsEvaluated"]

ROWS: Final = 8
SHARE: Final = 0.05
WHOLE: Final = 0.98
STRETCHES: Final = 0.3
LEAST_STRETCHES: Final = 100


@final
class TrainingRowsEvaluated(Rule):
    code = "DAT119"
    name = "training-rows-evaluated"
    severity = Severity.ERROR
    not_applicable = "no model was called without gradients on rows of tensors"
    explained_by = ("train-validation-overlap",)

    def on_rows_compared(self, event: RowsCompared) -> Findings:
        after = event.shared - event.before_training
        natural = event.training_repeats * event.rows
        if event.rows and after >= ROWS and after / event.rows >= SHARE:
            whole = event.shared >= WHOLE * event.rows
            if after > 3 * natural + 4 * math.sqrt(natural) and not whole:
                yield self.finding(
                    event,
                    f"{after:,} of {event.rows:,} rows that are evaluated here were trained on before.",
                    fix="Split the data before rows are repeated, cut or sampled; no row may be on both sides.",
                    evidence={"evaluated": event.rows, "trained_on": after, "share": round(after / event.rows, 3),
                              "training_rows": event.training_rows, "training_at": event.training_place},
                )  # fmt: skip
                return
        share = event.shared_stretches / max(1, event.stretches)
        if event.stretches >= LEAST_STRETCHES and share >= STRETCHES and event.shared < WHOLE * event.rows:
            yield self.finding(
                event,
                f"{share:.0%} of the windows' contents that are evaluated here are also inside training windows: the "
                "two sets overlap in time.",
                fix="Split the series in time first, then cut windows out of each part.",
                evidence={"stretches": event.stretches, "shared": event.shared_stretches, "share": round(share, 3),
                          "training_at": event.training_place},
            )  # fmt: skip
