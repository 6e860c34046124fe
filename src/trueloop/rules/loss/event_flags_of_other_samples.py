"""LOS194 event-flags-of-other-samples: a Cox loss sorts the scores by time, but not the event flags, or the reverse.

What it sees
------------
The loss of a recorded training step is differentiated with respect to the model's scores. The gradient is exactly that
of a partial likelihood in which the flag of each sample is the flag of a different row of the batch: the one that
comes from sorting only the scores, or only the flags, by the times that this step sorted.

Why it hurts
------------
Events are counted for samples that had none, at random, and the real events are ignored. The loss falls, because the
model learns which samples have long or short times of any kind, and the ranking by risk is poor.

Evidence
--------
The number of samples and events in the batch, and how many samples have the flag of a different sample.

Use instead
-----------
    order = torch.argsort(time, descending=True)
    score, event = score[order], event[order]            # both, by the same order
    loss = -((score - torch.logcumsumexp(score, 0)) * event).sum() / event.sum()

When it is fine
---------------
Not reported: losses whose gradient is that of a partial likelihood with each sample's own flag, or of no partial
likelihood; times that were sorted before the step; batches of fewer than 12 samples or 4 events.
"""

from typing import Final

from trueloop.event import EventFlagsMoved
from trueloop.rules.rule import Findings, Rule, Severity

__all__ = ["EventFlagsOfOtherSamples"]

STEPS: Final = 2  # recorded steps that must show it


class EventFlagsOfOtherSamples(Rule, code="LOS194", severity=Severity.ERROR):
    not_applicable = "no loss had the gradient of a partial likelihood of sorted samples"

    def on_event_flags_moved(self, event: EventFlagsMoved) -> Findings:
        if self.count(event.place) != STEPS:
            return
        other = "event flags" if event.sorted == "scores" else "scores"
        yield self.finding(
            event,
            f"The loss sorts the {event.sorted} of {event.rows} samples by time, but not their {other}: {event.moved} "
            f"samples have the event flag of a different sample ({event.events} events in the batch).",
            fix="Sort both by the same order: `score, event = score[order], event[order]`.",
            evidence={"samples": event.rows, "events": event.events, "moved": event.moved, "sorted": event.sorted},
        )
