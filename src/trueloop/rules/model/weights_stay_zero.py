"""MDL117 weights-stay-zero: weights are zero from the first step to the last, because their gradient is zero too.

What it sees
------------
A trainable weight matrix that was zero at the first call of the model, is zero at the end, and has a gradient of exact
zeros; or a frozen embedding table most of whose rows are zero.

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
Not reported: weights that start at zero and move (LoRA's B, the last layer of a residual block), biases, and weights
without a gradient.
"""

from trueloop.event import ZeroWeights
from trueloop.rules.rule import Findings, Rule, Severity

__all__ = ["WeightsStayZero"]


class WeightsStayZero(Rule, code="MDL117", severity=Severity.ERROR):
    not_applicable = "no weight was zero from start to end"

    def on_zero_weights(self, event: ZeroWeights) -> Findings:
        names = ", ".join(f"`{name}`" for name in event.names[:4])
        if event.frozen:
            message = f"{event.share:.0%} of the rows of the frozen table {names} of `{event.model}` are zero."
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
