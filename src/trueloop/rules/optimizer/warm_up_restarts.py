"""OPT131 warm-up-restarts: the learning rate warms up again and again, because its step starts from 0 every epoch.

What it sees
------------
Your own loop sets the learning rate; no scheduler does. The rates of all steps repeat exactly, three times or more.
Each period starts with a linear warm-up and ends in the middle of the schedule: the rate is still above half of its
highest value and still changes, and then it falls back to the first one at once.

Why it hurts
------------
A function of the step over the whole training gets the index within the epoch. The peak may never be reached, and the
decay at the end never comes: the model does not settle.

Evidence
--------
The period in steps, the number of steps, and the first, highest and last rate of a period.

Use instead
-----------
    step = epoch * len(loader) + i          # or a counter that is never set back
    lr = rate_at(step, total_steps)

When it is fine
---------------
Not reported: cycles that come down before they restart (cosine restarts, triangles), warm-ups that reach a constant
rate (a warm-up for each task), schedulers of torch, and periods that differ.
"""

from typing import Final

from trueloop.event import OptimizerSettings, RunEnded
from trueloop.rules.rule import Findings, Rule, Severity, facts

__all__ = ["WarmUpRestarts"]

HIGH: Final = 0.5  # of the highest rate of a period: a cycle on purpose ends below


class WarmUpRestarts(Rule, code="OPT131", severity=Severity.WARNING):
    not_applicable = "no optimizer step was taken"

    def __init__(self) -> None:
        self._optimizers: list[OptimizerSettings] = []

    def on_optimizer_settings(self, event: OptimizerSettings) -> None:
        self._optimizers.append(event)

    def on_run_ended(self, end: RunEnded) -> Findings:
        for event in self._optimizers:
            cycle = event.cycle
            if cycle is None or event.scheduled is not None or not cycle.linear or cycle.settled:
                continue
            if cycle.last < HIGH * cycle.highest or cycle.first > HIGH * cycle.last:
                continue
            yield self.finding(
                event,
                f"The learning rate warms up again every {cycle.steps} steps: it goes from {cycle.first:.3g} to "
                f"{cycle.last:.3g}, and falls back. The same {cycle.steps} rates repeat over all {event.steps} steps.",
                fix="Compute the rate from the number of all steps so far, not from the index within the epoch.",
                evidence=facts(cycle, "period=steps first highest last", steps=event.steps),
            )
