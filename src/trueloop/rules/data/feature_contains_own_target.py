"""DAT151 feature-contains-own-target: a column was computed from labels, that of its own row included.

What it sees
------------
Values of an input column have one and the same label in all training rows that have them: some values the one label,
some the other, without an exception in dozens of rows. Between them the share of a label grows with the value: in
proportion, or less regularly where means of small groups are smoothed. Evaluated rows with exactly these values have
all labels.

In a data file that the script reads: a running column of somebody (the rating of a team, the count of a customer) rises
from one of their rows to the next after one outcome and falls after another, and the outcome that says so is that of
the row itself, not that of the row before. It was written after the outcome.

Why it hurts
------------
The mean of the labels of a group (a dealer, a postcode) contains the label of the row itself. In a small group it is
mostly that label: the model learns to read it there, and finds nothing of the kind in new rows. The training loss is
too good, and the other columns are neglected.

Evidence
--------
The column, the training rows whose value has only one label, and the evaluated rows with the same values and how many
of them have a different label. Of a running column: the share of its changes whose sign follows from the outcome of the
same row, and the share that follows from the outcome of the row before.

Use instead
-----------
    for part in folds:                                     # encode each part with the labels of the others
        rate[part] = mean_label(group[~part], label[~part])[group[part]]

When it is fine
---------------
Not reported: values that have one label in evaluation too (a column that decides), numbers of a person or a machine
whose label changes later, columns with few repeated values, fewer than 10 % of the training rows, more than 64 columns,
and targets that are not two classes. Running columns are compared in files whose rows are in order of time, with a
column that names whose rows they are, and an outcome of at most five values: named so (`result`, `label`), or last.
"""

from trueloop.event import OwnOutcomeIncluded, OwnTargetColumn
from trueloop.rules.rule import Findings, Rule, Severity, facts

__all__ = ["FeatureContainsOwnTarget"]


class FeatureContainsOwnTarget(Rule, code="DAT151", severity=Severity.WARNING):
    not_applicable = "too few rows with class labels were seen in training and evaluation"
    explained_by = ("labels-renamed-in-evaluation", "feature-reveals-target")

    def on_own_target_column(self, event: OwnTargetColumn) -> Findings:
        if event.column is None:
            return
        yield self.finding(
            event,
            f"Column {event.column} of the input gives the label of {event.rows:,} of {event.training_rows:,} training "
            f"rows without an exception; {event.contrary:,} of {event.new_rows:,} evaluated rows with the same values "
            "have a different label. It was computed from the labels of these rows.",
            fix="Encode each training row without its own label: from the other folds, or from earlier rows only.",
            evidence={"column": event.column, "training_rows": event.training_rows, "rows": event.rows,
                      "values": event.values, "evaluated": event.new_rows, "contrary": event.contrary},
        )  # fmt: skip

    def on_own_outcome_included(self, event: OwnOutcomeIncluded) -> Findings:
        yield self.finding(
            event,
            f"Column `{event.column}` of `{event.file}` contains the outcome of its own row: `{event.label}` of the "
            f"row gives the direction of {event.own:.1%} of its changes between rows of one `{event.group}`, that "
            f"of the row before gives {event.earlier:.1%}. It was written after the outcome.",
            fix=f"Use the value before the outcome: that of the previous row of the same `{event.group}`.",
            evidence=facts(event, "file column group label rows own earlier"),
        )  # fmt: skip
