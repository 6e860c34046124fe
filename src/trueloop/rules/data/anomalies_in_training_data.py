"""DAT191 anomalies-in-training-data: a model of normal data is trained on anomalies too.

What it sees
------------
An autoencoder (its output has the shape of its input) in a script that speaks of normal data and of anomalies. It is
evaluated on rows for which a variable says what is an anomaly. Of each training row the five nearest evaluated rows are
looked up: for many training rows all five are anomalies. Of the evaluated normal rows, the control, hardly any is
surrounded so.

Why it hurts
------------
The model learns to reconstruct the anomalies that it should find. Their error is as small as that of normal rows, and
the alarm threshold, a quantile of the errors of such data, lies above them. The training loss looks good.

Evidence
--------
The share of training rows among anomalies, the same share of the evaluated normal rows, and the numbers of rows.

Use instead
-----------
    normal = table[table.status.str.strip().str.lower() == "normal"]     # not: "normal" in status, status != "FAULT"
    assert set(normal.status) == {"normal"}

When it is fine
---------------
Not reported: less than 4 % of the training rows; anomalies that do not lie together, or among normal rows; fewer than
150 training rows, 30 evaluated anomalies or 30 evaluated normal rows; labels in variables of other names.
"""

from typing import Final

from trueloop.event import AnomaliesCompared, RunEnded
from trueloop.rules.rule import Findings, Rule, Severity

__all__ = ["AnomaliesInTrainingData"]

SHARE: Final = 0.04
TIMES: Final = 4  # the share of the evaluated normal rows
ABOVE: Final = 0.03


class AnomaliesInTrainingData(Rule, code="DAT191", severity=Severity.WARNING):
    not_applicable = "no autoencoder of normal data was evaluated on labeled anomalies"

    def __init__(self) -> None:
        self._compared: dict[int, AnomaliesCompared] = {}

    def on_anomalies_compared(self, event: AnomaliesCompared) -> None:
        self._compared[event.model] = event

    def on_run_ended(self, end: RunEnded) -> Findings:
        for event in self._compared.values():
            if event.share < max(SHARE, TIMES * event.expected + ABOVE):
                continue
            yield self.finding(
                event,
                f"{event.share:.0%} of {event.training_rows:,} rows that the model is trained on lie among the "
                f"anomalies of its evaluation (`{event.labels}`): their nearest evaluated rows are all anomalies. Of "
                f"the evaluated normal rows {event.expected:.1%} are.",
                fix="Check how the normal rows are selected: a spelling, a code or a list may let anomalies through.",
                evidence={"share": event.share, "expected": event.expected, "training_rows": event.training_rows,
                          "evaluated_rows": event.rows, "anomalies": event.anomalies},
            )  # fmt: skip
