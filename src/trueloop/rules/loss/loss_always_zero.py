"""LOS143 loss-always-zero: the loss is exactly 0 from the first step to the last, so nothing is trained.

What it sees
------------
The losses at the line that calls backward most often: the first five, the highest and those of the last quarter are all
exactly 0.

Why it hurts
------------
A loss that cannot be anything but 0 has no gradient. The steps change nothing, except by weight decay, and a loss of
0.0000 looks like success.

Evidence
--------
The number of backward calls, the first losses, the highest one.

Use instead
-----------
Look for what the loss compares: cross entropy over a single class, a contrastive loss with a batch of one sample (no
negatives), a margin that every pair already exceeds, a mask that removes every element, a prediction compared with
itself.

    assert logits.shape[1] > 1                                 # at least one negative

When it is fine
---------------
A loss that becomes 0 after some steps is not reported: a margin loss on easy data does that.
"""

from typing import Final

from trueloop.event import LossCurve
from trueloop.rules.rule import Findings, Rule, Severity, plural

__all__ = ["LossAlwaysZero"]

LEAST: Final = 10  # backward calls


class LossAlwaysZero(Rule, code="LOS143", severity=Severity.WARNING):
    not_applicable = "no backward was called"

    def on_loss_curve(self, event: LossCurve) -> Findings:
        zero = not any(event.first) and event.peak == 0 == event.end
        if zero and event.count >= LEAST and not event.below_zero:
            yield self.finding(
                event,
                f"The loss is exactly 0 in every one of the {plural(event.count, 'backward call')}: it has no "
                f"gradient, and nothing is trained.",
                fix="Print what the loss compares: one class only, a batch without negatives, a mask that removes "
                "everything, a prediction compared with itself.",
                evidence={"backward calls": event.count, "first losses": list(event.first), "highest": event.peak},
            )
