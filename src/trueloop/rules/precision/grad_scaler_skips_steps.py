"""PRC105 grad-scaler-skips-steps: the GradScaler keeps skipping optimizer steps.

What it sees
------------
Calls of `scaler.step(optimizer)` that did not step the optimizer, because a gradient was NaN or Inf. The first calls do
not count: as many as halving the first scale down to 1 takes (16 from 65536), plus four.

Why it hurts
------------
A skipped step silently drops a batch: schedulers and counters advance, the weights do not. A scaler that keeps skipping
gets gradients that no scale makes finite: values above 65504 in the forward, or a NaN loss for some batches. The scale
falls towards zero, and small gradients vanish.

Evidence
--------
How many steps were requested and skipped, in total and after the search for a scale; the first and the last scale.

Use instead
-----------
Compute the overflowing part in float32, or everything in bfloat16:

    with torch.autocast("cuda", dtype=torch.float16):
        features = backbone(x)
    loss = criterion(head(features.float()), y)      # outside autocast

When it is fine
---------------
Not reported: the first few steps, and later one per growth interval (2000 steps), when the scale has grown too far.
"""

from typing import Final

from trueloop.event import ScalerCounted
from trueloop.rules.rule import Findings, Rule, Severity, facts

__all__ = ["GradScalerSkipsSteps"]

ENOUGH: Final = 5  # Skipped steps after the search for a scale: fewer may be a few bad batches
SHARE: Final = 0.05
"""Share of skipped steps after the search. A healthy scaler that grows every 2000 steps skips one in 2000."""
TRIES: Final = 2  # Steps each growth of the scale may cost, if a short growth interval makes this more than the share


class GradScalerSkipsSteps(Rule, code="PRC105", severity=Severity.WARNING):
    not_applicable = "no GradScaler took a step"
    explained_by = ("nan-or-inf", "loss-diverges")

    def on_scaler_counted(self, event: ScalerCounted) -> Findings:
        allowed = max(SHARE, TRIES / max(1, event.growth_interval)) * event.late_steps
        if event.late_skipped < ENOUGH or event.late_skipped <= allowed or self.count(event.scaler) > 1:
            return
        share = event.late_skipped / event.late_steps
        yield self.finding(
            event,
            f"The `GradScaler` skipped {event.skipped} of {event.steps} steps ({share:.0%} after the search for a "
            f"scale). Its scale went from {event.first_scale:g} to {event.scale:g}.",
            fix="Find what overflows in float16 (values above 65504, a NaN loss) and compute it in float32, or use "
            "bfloat16.",
            evidence=facts(
                event,
                "steps skipped steps_after_search=late_steps skipped_after_search=late_skipped",
                "first_scale scale growth_interval",
            ),
        )
