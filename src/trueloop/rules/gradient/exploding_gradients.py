"""GRD107 exploding-gradients: the gradient norm has grown by orders of magnitude without clipping.

What it sees
------------
In three consecutive measurements the gradient norm is 1,000 times that of the first steps, and gradients are not
clipped. It is also 1,000 times the median of all earlier measurements, or has grown during the whole run.

Why it hurts
------------
Each such step moves the weights further than all normal steps together. The loss may still look bounded, but a single
batch can ruin the run.

Evidence
--------
The gradient norm in the first steps, its median and its latest values, and the learning rate.

Use instead
-----------
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()

When it is fine
---------------
Not reported: large gradients in the first steps that settle down, a single outlier, and runs with clipping.
"""

import math
from statistics import median
from typing import Final

from trueloop.event import GradientsMeasured
from trueloop.rules.rule import Finding, Findings, Rule, Severity

__all__ = ["ExplodingGradients"]

GROWTH: Final = 1e3  # Times the first gradient norms. Healthy runs vary by 10, rarely by 100, over their whole length.
STILL: Final = 1.5
"""Times the median of the last third of the earlier measurements: the norm is still growing, not settled."""
RECENT: Final = 3  # Consecutive measurements: a single large gradient is a hard batch
EARLIER: Final = 4  # Measurements before them: the first three steps and one more
FIRST: Final = 3  # Measurements that count as the first steps


class ExplodingGradients(Rule, code="GRD107", severity=Severity.WARNING):
    not_applicable = "no gradients were measured"
    explained_by = ("loss-diverges", "gradients-never-cleared")

    def __init__(self) -> None:
        self._totals: dict[int, dict[int, float]] = {}  # By optimizer: finite gradient norms by step, if not clipped
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
        norms = list(totals.values())
        earlier, recent = norms[:-RECENT], norms[-RECENT:]
        if len(earlier) < EARLIER:
            return
        first = max(earlier[:FIRST])
        if 0 < first * GROWTH <= min(recent) and (
            min(recent) >= GROWTH * median(earlier) or _keeps_growing(earlier, recent)
        ):
            yield self._report(event, earlier, recent)

    def _report(self, event: GradientsMeasured, earlier: list[float], recent: list[float]) -> Finding:
        return self.finding(
            event,
            f"The gradient norm is {recent[-1]:.1e} at step {event.index + 1}, up from {max(earlier[:FIRST]):.1e} in "
            f"the first steps (median {median(earlier):.1e}), and gradients are not clipped.",
            fix="Call `torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)` before `step()`. "
            "Then look for the cause: a high learning rate or an unbounded objective.",
            evidence={
                "first": earlier[:FIRST],
                "median": median(earlier),
                "recent": recent,
                "learning_rate": event.learning_rate,
                "measurements": len(earlier) + len(recent),
            },
        )


def _keeps_growing(earlier: list[float], recent: list[float]) -> bool:
    """Growth from third to third of the earlier measurements, and further until now."""
    third = len(earlier) // 3
    if third < 2:
        return False
    begin, middle, end = (median(part) for part in (earlier[:third], earlier[third:-third], earlier[-third:]))
    return begin < middle < end and min(recent) > STILL * end
