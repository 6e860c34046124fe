"""PRC105 grad-scaler-skips-steps: the GradScaler leaves many steps out, long after it had time to find its scale.

What it sees
------------
Calls of `scaler.step(optimizer)` that did not step the optimizer, because a gradient was infinite or no number. The
first calls do not count: halving the first scale until it is one takes so many (16 from 65536), and four more.

Why it hurts
------------
A step that is left out is a batch thrown away, without a word: schedules and counters go on, the weights do not. A
scaler that goes on skipping meets gradients that no scale makes finite: values above 65504 in the forward, a loss that
is no number for some batches. The scale falls towards zero, and small gradients vanish with it.

Evidence
--------
How many steps were asked for and left out, in all and after the search for a scale; the first scale and the last.

Use instead
-----------
Compute what overflows in float32, or everything in bfloat16:

    with torch.autocast("cuda", dtype=torch.float16):
        features = backbone(x)
    loss = criterion(head(features.float()), y)      # outside the region

When it is fine
---------------
The first few steps; afterwards one now and then, when the scale has grown too far: one per growth interval (2000
steps), as the scaler was told.
"""

from __future__ import annotations

from typing import Final, final

from trueloop.event import ScalerCounted
from trueloop.finding import Severity
from trueloop.rules.rule import Findings, Rule

__all__ = ["GradScalerSkipsSteps"]

ENOUGH: Final = 5
"""Steps left out after the search for a scale: fewer may be one bad stretch of data."""
SHARE: Final = 0.05
"""Share of the steps left out after the search. A healthy scaler, growing every 2000 steps, leaves out one in two
thousand."""
TRIES: Final = 2
"""Steps that each growth of the scale may cost, where the scaler was told to grow so often that this is more than the
share."""


@final
class GradScalerSkipsSteps(Rule):
    code = "PRC105"
    name = "grad-scaler-skips-steps"
    severity = Severity.WARNING
    not_applicable = "no GradScaler took a step"
    explained_by = ("nan-or-inf", "loss-diverges")

    def __init__(self) -> None:
        self._told: set[int] = set()

    def on_scaler_counted(self, event: ScalerCounted) -> Findings:
        allowed = max(SHARE, TRIES / max(1, event.growth_interval)) * event.late_steps
        if event.scaler in self._told or event.late_skipped < ENOUGH or event.late_skipped <= allowed:
            return
        self._told.add(event.scaler)
        share = event.late_skipped / event.late_steps
        yield self.finding(
            event,
            f"The GradScaler left out {event.skipped} of {event.steps} steps, {share:.0%} of those after the search for a scale, "
            f"and its scale went from {event.first_scale:g} to {event.scale:g}.",
            fix="Find what overflows in float16 (values above 65504, a loss that is no number) and compute it in float32, or use bfloat16.",
            evidence={
                "steps": event.steps,
                "skipped": event.skipped,
                "steps_after_search": event.late_steps,
                "skipped_after_search": event.late_skipped,
                "first_scale": event.first_scale,
                "scale": event.scale,
                "growth_interval": event.growth_interval,
            },
        )
