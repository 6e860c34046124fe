"""MDL109 future-leakage: a model that predicts the next value can see that value.

What it sees
------------
The targets are the inputs shifted by one. A copy of the model runs again in eval mode with all inputs after the middle
of the sequence replaced. Its outputs before the middle change, although they are stable when nothing is replaced.

In a model without modules: every table of attention weights between all positions of the only tokens of the step gives
weight to the next position, at each position.

Why it hurts
------------
The model copies the answer instead of predicting it: training loss and validation loss fall to nearly zero. In
generation or forecasting there is no future input, and the model is useless.

Evidence
--------
The sequence length, the position, how much the outputs before it changed relative to their spread, and the layer and
line where the future first appears.

Use instead
-----------
    F.scaled_dot_product_attention(q, k, v, is_causal=True)
    scores = scores.masked_fill(torch.ones(T, T, dtype=torch.bool).triu(1), float("-inf"))

For recurrent layers use `bidirectional=False`, for convolutions pad on the left only.

When it is fine
---------------
Not checked: bidirectional models (masked language models, taggers, autoencoders), whose targets are not the shifted
inputs. An encoder may give the decoder a summary of the full sequence (a sentence autoencoder), and may attend to its
own copy of the sequence.
"""

from typing import Final

from trueloop.event import CausalityTested, FutureAttended
from trueloop.rules.rule import Findings, Rule, Severity, facts

__all__ = ["FutureLeakage"]

CHANGE: Final = 1e-3  # Relative change of earlier outputs: larger than rounding, also in half precision
SAMPLED: Final = 2  # recorded steps that must show it
REPEAT: Final = 1e-6  # Relative change when nothing was replaced: above it the model is random or has a state


class FutureLeakage(Rule, code="MDL109", severity=Severity.ERROR):
    not_applicable = "no model was trained to predict its own input shifted by one"

    def on_causality_tested(self, event: CausalityTested) -> Findings:
        if event.shift != 1 or event.change <= CHANGE or event.repeat > REPEAT:
            return
        where = f", in {event.layer}" if event.layer else ""
        yield self.finding(
            event,
            f"{event.name} predicts the next value but sees it{where}: its outputs up to position {event.position} of "
            f"{event.length} change by {event.change:.0%} of their spread when only later inputs change.",
            fix="Hide the future: `is_causal=True` or a causal mask in attention, `bidirectional=False` in recurrent "
            "layers, left padding in convolutions.",
            evidence=facts(event, "model=name position length change repeat layer"),
            place=event.defined,
        )

    def on_future_attended(self, event: FutureAttended) -> Findings:
        if event.seen < event.tables or self.count() != SAMPLED:
            return
        yield self.finding(
            event,
            f"The targets are the next tokens, but attention sees them: each of {event.length} positions gives weight "
            f"to the position after it.",
            fix="Hide the future: `is_causal=True`, or `masked_fill` the scores with `-inf` above the diagonal "
            "(`torch.ones(T, T).triu(1).bool()`).",
            evidence=facts(event, "function length tables seen", sampled_steps=SAMPLED),
        )
