"""LOS145 risk-set-of-shuffled-rows: a Cox loss takes the rows of a shuffled batch for an order of time.

What it sees
------------
The loss of a recorded training step is differentiated with respect to the model's scores. The gradient is exactly that
of a partial likelihood whose sets follow the position of the rows in the batch: a cumulative sum over the batch. The
rows come in a random order, and no column of the batch is sorted.

Why it hurts
------------
The set of an event must hold the samples that are still under observation at its time. With rows in a random order it
holds any samples: the loss still falls, but most of what the times say is lost.

Evidence
--------
The number of samples and events in the batch, and the line that sums.

Use instead
-----------
    order = torch.argsort(time, descending=True)         # in the loss, for each batch
    score, event = score[order], event[order]
    log_risk = torch.logcumsumexp(score, dim=0)

When it is fine
---------------
Not reported: batches with a sorted column (data that are sorted once and not shuffled, or sorted in the collate
function), sets by a comparison of times, losses whose gradient is not that of a partial likelihood in every sample, and
batches of fewer than 12 samples.
"""

from typing import Final

from trueloop.event import RiskSetsByRow
from trueloop.rules.rule import Findings, Rule, Severity

__all__ = ["RiskSetOfShuffledRows"]

STEPS: Final = 2  # recorded steps that must show it


class RiskSetOfShuffledRows(Rule, code="LOS145", severity=Severity.ERROR):
    not_applicable = "no loss had the gradient of a partial likelihood over the rows of a batch"

    def on_risk_sets_by_row(self, event: RiskSetsByRow) -> Findings:
        if not event.shuffled or not event.unsorted or self.count(event.place) != STEPS:
            return
        yield self.finding(
            event,
            f"The partial likelihood of {event.rows} samples takes the rows before each of the {event.events} events "
            "for its risk set, but the rows are in a random order: no column of the batch is sorted.",
            fix="Sort each batch before the cumulative sum: `order = torch.argsort(time, descending=True)`.",
            evidence={"samples": event.rows, "events": event.events, "unsorted_columns": event.unsorted},
        )
