"""GRD107 exploding-gradients: the gradients have grown by orders of magnitude, and nothing limits them.

What it sees
------------
Three measurements in a row found gradients a thousand times as long as those of the first steps, with no clipping in
place; and they are a thousand times the median of all measured before, or have grown through the whole run.

Why it hurts
------------
Each such step throws the weights further than all calm steps together. The loss may still look bounded, and a single
batch can undo the run.

Evidence
--------
The length of the gradient at first, its median, and in the last measurements; the learning rate.

Use instead
-----------
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()

When it is fine
---------------
Long gradients in the first steps that calm down, a single outlier, and clipped runs are not reported.
"""

from __future__ import annotations

import math
from statistics import median
from typing import Final, final

from trueloop.event import GradientsMeasured
from trueloop.finding import Finding, Severity
from trueloop.rules.rule import Findings, Rule

__all__ = ["ExplodingGradients"]

GROWTH: Final = 1e3
"""Times the length of the first gradients. Healthy runs vary by ten, seldom by a hundred, over their whole length."""
STILL: Final = 1.5
"""Times the median of the last third of what was measured before: the gradients are still growing, not settled at
another length."""
RECENT: Final = 3
"""Measurements in a row: one long gradient is a hard batch."""
EARLIER: Final = 4
"""Measurements that must lie before them: the first three steps and one more."""
FIRST: Final = 3
"""The first steps."""


@final
class ExplodingGradients(Rule):
    code = "GRD107"
    name = "exploding-gradients"
    severity = Severity.WARNING
    not_applicable = "no gradients were measured"
    explained_by = ("loss-diverges", "gradients-never-cleared")

    def __init__(self) -> None:
        self._totals: dict[int, dict[int, float]] = {}
        """Per optimizer: the gradient's length at each step that was measured, as long as it was finite and
        unclipped."""
        self._clips: set[int] = set()

    def why_not_checked(self) -> str:
        longest = max(map(len, self._totals.values()), default=0)
        if longest >= RECENT + EARLIER:
            return ""
        return "gradients are clipped" if self._clips else f"gradients were measured on only {longest} steps"

    def on_gradients_measured(self, event: GradientsMeasured) -> Findings:
        if event.clipped:
            self._clips.add(event.optimizer)
        if event.optimizer in self._clips or not math.isfinite(event.total):
            return
        totals = self._totals.setdefault(event.optimizer, {})
        totals[event.index] = event.total
        lengths = list(totals.values())
        earlier, recent = lengths[:-RECENT], lengths[-RECENT:]
        if len(earlier) < EARLIER:
            return
        first = max(earlier[:FIRST])
        if 0 < first * GROWTH <= min(recent) and (
            min(recent) >= GROWTH * median(earlier) or _keeps_growing(earlier, recent)
        ):
            yield self._speak(event, earlier, recent)

    def _speak(self, event: GradientsMeasured, earlier: list[float], recent: list[float]) -> Finding:
        return self.finding(
            event,
            f"The gradient's length is {recent[-1]:.1e} at step {event.index + 1}: it was {max(earlier[:FIRST]):.1e} in the first steps, "
            f"{median(earlier):.1e} in the median, and nothing clips it.",
            fix="Clip gradients before the step, and look for what makes them grow: the learning rate, an objective without a bound.",
            evidence={
                "first": earlier[:FIRST],
                "median": median(earlier),
                "recent": recent,
                "learning_rate": event.learning_rate,
                "measurements": len(earlier) + len(recent),
            },
        )


def _keeps_growing(earlier: list[float], recent: list[float]) -> bool:
    """From third to third of what was measured before, and on to now."""
    third = len(earlier) // 3
    if third < 2:
        return False
    begin, middle, end = (median(part) for part in (earlier[:third], earlier[third:-third], earlier[-third:]))
    return begin < middle < end and min(recent) > STILL * end
