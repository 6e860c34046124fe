"""LOS136 risk-set-reversed: a Cox loss compares each event with those who left before it, not with those at risk.

What it sees
------------
The loss of a recorded training step is differentiated with respect to the model's scores. The gradient is exactly that
of a partial likelihood whose sets hold, for each event, the samples with an earlier time. The times and the events are
found among the tensors of the step by trying them.

Why it hurts
------------
At the time of an event, the samples at risk are the ones still under observation: their time is the same or
later. Sorted by ascending time, a cumulative sum holds those who have already left. The model then learns to give high
scores to those who live long: the ranking is inverted, and the concordance falls below 0.5.

Evidence
--------
The number of samples and events in the batch, and the line that sorts or sums.

Use instead
-----------
    order = torch.argsort(time, descending=True)
    log_sum = torch.logcumsumexp(score[order], dim=0)
    at_risk = time[None, :] >= time[:, None]              # or by comparison: row i holds those of time[i] or later

When it is fine
---------------
Not reported: losses whose gradient is not that of a partial likelihood in every sample, losses of a ranking without
censored samples, and fewer than 12 different times in a batch.
"""

from typing import Final

from trueloop.event import RiskSetsTested
from trueloop.rules.rule import Findings, Rule, Severity

__all__ = ["RiskSetReversed"]

STEPS: Final = 2  # recorded steps that must show it


class RiskSetReversed(Rule, code="LOS136", severity=Severity.ERROR):
    not_applicable = "no loss had the gradient of a partial likelihood"

    def on_risk_sets_tested(self, event: RiskSetsTested) -> Findings:
        if event.later or self.count(event.place) != STEPS:
            return
        yield self.finding(
            event,
            f"The partial likelihood of {event.rows} samples compares each of the {event.events} events with the "
            "samples of an earlier time, which have already left, and not with those still at risk.",
            fix="Sort by descending time before the cumulative sum: `torch.argsort(time, descending=True)`; in a "
            "comparison, keep `time[None, :] >= time[:, None]`.",
            evidence={"samples": event.rows, "events": event.events},
        )
