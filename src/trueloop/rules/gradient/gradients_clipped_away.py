"""GRD113 gradients-clipped-away: clipping leaves a tiny part of the gradient in every step.

What it sees
------------
The gradient norm before `clip_grad_norm_`, on many calls. In nearly all of them it is far above the limit.

Why it hurts
------------
Clipping is meant for rare spikes. A limit of a hundredth of the usual norm divides the learning rate by a hundred and
gives every step the same length, however large or small its gradient is.

Evidence
--------
The limit, the median norm before clipping, and the share of calls that clipped.

Use instead
-----------
    torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)      # about the usual norm, or above

When it is fine
---------------
Not reported: a median norm below 50 times the limit. Adam and its kin normalize the gradient, so with them only a
limit below 0.01 and a norm of a thousand times the limit are reported.
"""

from typing import Final

from trueloop.event import ClipsMeasured
from trueloop.rules.rule import Findings, Rule, Severity

__all__ = ["GradientsClippedAway"]

CALLS: Final = 8
SHARE: Final = 0.9
RATIO: Final = 50.0
RATIO_SCALE_FREE: Final = 1000.0
LIMIT_SCALE_FREE: Final = 0.01  # PPO and language models clip to 0.5 or 1 at any norm


class GradientsClippedAway(Rule, code="GRD113", severity=Severity.WARNING):
    not_applicable = "`clip_grad_norm_` was not called"

    def on_clips_measured(self, event: ClipsMeasured) -> Findings:
        if event.measured < CALLS or event.clipped < SHARE or event.limit <= 0:
            return
        ratio = event.median_norm / event.limit
        if ratio < (RATIO_SCALE_FREE if event.scale_free else RATIO):
            return
        if event.scale_free and event.limit >= LIMIT_SCALE_FREE:
            return
        yield self.finding(
            event,
            f"`clip_grad_norm_` clips {event.clipped:.0%} of the steps: the gradient norm is {event.median_norm:.3g} "
            f"(median) and the limit {event.limit:g}, so 1/{ratio:.0f} of it is left.",
            fix=f"Raise `max_norm` to about {event.median_norm:.1g}, or remove the clipping.",
            evidence={"limit": event.limit, "median_norm": event.median_norm, "clipped": event.clipped,
                      "calls": event.calls},
        )  # fmt: skip
