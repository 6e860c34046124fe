"""DAT153 target-is-end-of-window: a forecast has to predict the last number of its own input.

What it sees
------------
In recorded training steps the first number of every target is exactly the last number of its input row, along time. The
rows are windows of a series: they share stretches of numbers with each other. Every prediction of the step is compared
with such targets.

Why it hurts
------------
The window and its target overlap by one: `series[end - 1]` where `series[end]` was meant. The model learns to copy its
last input. The error looks excellent in training and validation, and a real forecast is no better than the latest
value.

Evidence
--------
The length of the window, the numbers in a target, the rows compared, and how many pairs of rows overlap.

Use instead
-----------
    x, y = series[end - window:end], series[end:end + horizon]        # the target begins after the window

When it is fine
---------------
Not reported: targets as long as the input (autoencoders, reversed copies), rows that do not overlap (made-up tasks), a
difference to the last value beside the real target, noisy inputs, and targets that repeat few numbers.
"""

from typing import Final

from trueloop.event import WindowEndsInTarget
from trueloop.rules.rule import Findings, Rule, Severity, facts

__all__ = ["TargetIsEndOfWindow"]

SAMPLED: Final = 2  # recorded steps that must show it
OVERLAPS: Final = 3  # in these steps together


class TargetIsEndOfWindow(Rule, code="DAT153", severity=Severity.ERROR):
    not_applicable = "no target was the last number of its input in a recorded training step"

    def __init__(self) -> None:
        self._steps = 0
        self._overlaps = 0

    def on_window_ends_in_target(self, event: WindowEndsInTarget) -> Findings:
        self._steps += 1
        before, self._overlaps = self._overlaps, self._overlaps + event.overlaps
        shown = self._steps >= SAMPLED and self._overlaps >= OVERLAPS
        if not shown or (self._steps > SAMPLED and before >= OVERLAPS):
            return
        what = "The first number of each" if event.horizon > 1 else "Each"
        yield self.finding(
            event,
            f"{what} target equals the last number of its window of {event.window} in all {event.rows} rows: the model "
            "is given what it has to predict.",
            fix="Begin the target after the window: `series[end]`, not `series[end - 1]`.",
            evidence=facts(event, "window horizon rows", overlaps=self._overlaps),
        )
