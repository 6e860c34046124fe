"""MDL117 weights-stay-zero: weights are zero from the first step to the last, because their gradient is zero too.

What it sees
------------
A trainable weight matrix that was zero at the first call of the model, still is after at least 20 steps, and had a
gradient of exact zeros at every look; or a frozen embedding table in which most of the ids that are looked up have a
row of zeros.

Why it hurts
------------
If two factors of a product are both zero (both matrices of a LoRA adapter, both tables of a matrix factorization), each
one's gradient is multiplied by the other: neither ever moves. A table of pretrained vectors with zero rows carries no
information about those words.

Evidence
--------
The names of the weights, the number of steps, or the share of zero rows.

Use instead
-----------
    nn.init.normal_(adapter.a, std=0.02)
    nn.init.zeros_(adapter.b)            # one of the two

When it is fine
---------------
Not reported: weights that start at zero and move (LoRA's B, the last layer of a residual block), biases, weights
without a gradient, and zero rows of a frozen table that are not looked up (padding, unused rows).
"""

from trueloop.event import ZeroWeights
from trueloop.rules.rule import Findings, Rule, Severity

__all__ = ["WeightsStayZero"]


class WeightsStayZero(Rule, code="MDL117", severity=Severity.ERROR):
    not_applicable = "no weight was zero from start to end"

    def on_zero_weights(self, event: ZeroWeights) -> Findings:
        names = ", ".join(f"`{name}`" for name in event.names[:4])
        if event.frozen:
            message = (
                f"{event.share:.0%} of the ids looked up in the frozen table {names} of `{event.model}` have zero rows."
            )
            fix = "Check the file that the table was loaded from, and the names that its rows are looked up by."
        else:
            message = f"{names} of `{event.model}` stayed zero for {event.steps} steps: the gradient is exactly zero."
            fix = "Initialize at least one factor of the product with small random numbers."
        yield self.finding(
            event,
            message,
            fix=fix,
            evidence={"weights": list(event.names), "steps": event.steps, "zero_rows": round(event.share, 3)},
            severity=Severity.WARNING if event.frozen else None,
        )
