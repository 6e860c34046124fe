"""MOD106 dropout-too-high: dropout removes four of five activations, or more.

What it sees
------------
The probabilities of the dropout layers of a model that is trained.

Why it hurts
------------
`p` is the share that is dropped, not the share that is kept. At 0.9 a tenth of the units is left in each step, scaled
up tenfold: the noise is larger than the signal, and the model trains slowly or not at all.

Evidence
--------
The layers and their probabilities.

Use instead
-----------
    nn.Dropout(p=0.1)         # keeps 90 %

When it is fine
---------------
Not reported: probabilities below 0.8.
"""

from typing import Final

from trueloop.event import DropoutRates
from trueloop.rules.rule import Findings, Rule, Severity

__all__ = ["DropoutTooHigh"]

RATE: Final = 0.8


class DropoutTooHigh(Rule, code="MOD106", severity=Severity.WARNING):
    not_applicable = "no model with dropout was trained"

    def on_dropout_rates(self, event: DropoutRates) -> Findings:
        high = [(name, rate) for name, rate in event.rates if rate >= RATE]
        if not high:
            return
        name, rate = max(high, key=lambda item: item[1])
        yield self.finding(
            event,
            f"`{name}` of `{event.name}` drops {rate:.0%} of the activations ({len(high)} of {len(event.rates)} "
            "dropout layers are that high).",
            fix="`p` is the share that is dropped: use 0.1 to 0.5.",
            evidence={"layers": dict(high)},
        )
