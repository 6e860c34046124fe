"""GRD114 accumulation-longer-than-epoch: gradients are accumulated over as many batches as an epoch has, or more.

What it sees
------------
Backward calls per optimizer step, against the batches of a pass over the loader.

Why it hurts
------------
The run takes one step per epoch or fewer: ten epochs make ten updates. Where the counter starts again with each epoch,
no step is ever taken.

Evidence
--------
Backward calls, optimizer steps, passes, and batches per pass.

Use instead
-----------
    accumulate = min(accumulate, len(loader))       # a few batches, chosen for the batch size that you want

When it is fine
---------------
Not reported: full-batch training (one batch per pass), fewer than eight batches per pass, and several optimizers.
"""

from typing import Final

from trueloop.event import OptimizerSettings, RunEnded
from trueloop.rules.rule import Findings, Rule, Severity

__all__ = ["AccumulationLongerThanEpoch"]

BATCHES: Final = 8


class AccumulationLongerThanEpoch(Rule, code="GRD114", severity=Severity.WARNING):
    not_applicable = "no optimizer step was taken"

    def __init__(self) -> None:
        self._optimizers: list[OptimizerSettings] = []

    def on_optimizer_settings(self, event: OptimizerSettings) -> None:
        self._optimizers.append(event)

    def on_run_ended(self, _: RunEnded) -> Findings:
        if len(self._optimizers) != 1:
            return
        (event,) = self._optimizers
        batches = event.batches_per_pass
        if batches is None or batches < BATCHES or event.passes < 2 or event.steps == 0:
            return
        per_step = event.backwards / event.steps
        if per_step < 0.95 * batches or event.backwards < 2 * batches:
            return
        yield self.finding(
            event,
            f"{event.backwards} backward calls made {event.steps} optimizer steps: {per_step:.0f} batches per step, "
            f"and an epoch has {batches}.",
            fix="Accumulate over fewer batches.",
            evidence={"backwards": event.backwards, "steps": event.steps, "passes": event.passes,
                      "batches_per_pass": batches},
        )  # fmt: skip
