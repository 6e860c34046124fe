"""MDL109 future-visible: the model predicts the next value, and has seen it.

What it sees
------------
The targets are the inputs shifted by one. A copy of the model is run again in eval mode, with everything after the
middle of the sequence replaced, and its outputs before the middle change, though they do not when nothing is replaced.

Why it hurts
------------
The model copies the answer instead of predicting it: the training loss falls to nearly nothing and so does the
validation loss, and in use, where there is no future to look at, the model is worthless.

Evidence
--------
The length of the sequence, the position, how much the outputs before it changed relative to their spread, and the layer
and line where the future first shows.

Use instead
-----------
    F.scaled_dot_product_attention(q, k, v, is_causal=True)
    scores = scores.masked_fill(torch.ones(T, T, dtype=torch.bool).triu(1), float("-inf"))

and for recurrent layers `bidirectional=False`, for convolutions padding on the left only.

When it is fine
---------------
Models that may look both ways (masked language models, taggers, autoencoders) are not judged: their targets are not the
shifted inputs. An encoder may hand the decoder a summary of the whole sequence (a sentence autoencoder), or attend to
its own copy of it.
"""

from __future__ import annotations

from typing import Final, final

from trueloop.event import CausalityTested
from trueloop.finding import Severity
from trueloop.rules.rule import Findings, Rule

__all__ = ["FutureVisible"]

CHANGE: Final = 1e-3
"""Relative change of earlier outputs that rounding, at half precision too, does not make."""
REPEAT: Final = 1e-6
"""Relative change when nothing was replaced: above it the model is random, or has a state, and nothing is said."""


@final
class FutureVisible(Rule):
    code = "MDL109"
    name = "future-visible"
    severity = Severity.ERROR
    not_applicable = "no model was trained to predict its own input shifted by one"

    def on_causality_tested(self, event: CausalityTested) -> Findings:
        if event.change <= CHANGE or event.repeat > REPEAT:
            return
        where = f", in {event.layer}" if event.layer else ""
        yield self.finding(
            event,
            f"{event.name} is trained to predict the next value, and its outputs up to position {event.position} of {event.length} change "
            f"by {event.change:.0%} of their spread when only later inputs do{where}.",
            fix="Hide the future: is_causal=True or a causal mask in attention, no bidirectional layer, convolutions padded on the left.",
            evidence={
                "model": event.name,
                "position": event.position,
                "length": event.length,
                "change": event.change,
                "repeat": event.repeat,
                "layer": event.layer,
            },
            place=event.defined,
        )
