"""MDL123 only-padding-attended: the padding mask of attention is inverted.

What it sees
------------
Rows of token ids (or of feature vectors) that end or begin with padding of different lengths. In recorded training
steps, attention gives weight to exactly the padded positions and to none of the real ones. Seen by the masks of
`nn.MultiheadAttention`, `nn.TransformerEncoder` and `F.scaled_dot_product_attention`, and by the weights of a softmax.
Or, of masks: at each position, the keys that attention may see are the same in all samples, and the hidden keys
are not. Nothing that distinguishes two samples is seen then, whatever stands for padding.

Why it hurts
------------
The real tokens are hidden: every sequence looks like padding, and the model learns from lengths and positions at best.
The two conventions are opposite: `key_padding_mask` is True where a position is ignored, the boolean `attn_mask` of
`scaled_dot_product_attention` is True where it takes part.

Evidence
--------
The padding token, the rows with both padding and data, and in how many of them only padding is attended.

Use instead
-----------
    encoder(x, src_key_padding_mask=ids.eq(PAD))                      # True: ignored
    F.scaled_dot_product_attention(q, k, v, attn_mask=ids.ne(PAD)[:, None, None])   # True: attended
    scores = scores.masked_fill(ids.eq(PAD)[:, None, None], float("-inf"))

When it is fine
---------------
Not reported: rows of one length, masks that hide anything else than exactly all real positions, tokens that also
appear between others (unless what is seen is the same in all samples).
"""

from typing import Final

from trueloop.event import PaddingAttended, StepProgram
from trueloop.rules.rule import Findings, Rule, Severity, facts, plural

__all__ = ["OnlyPaddingAttended"]

SAMPLED: Final = 2  # recorded steps that must show it
ROWS: Final = 2  # with both padding and data


class OnlyPaddingAttended(Rule, code="MDL123", severity=Severity.ERROR):
    not_applicable = "no training step was recorded"
    applies_after = (StepProgram,)

    def __init__(self) -> None:
        self._steps: set[int] = set()

    def on_padding_attended(self, event: PaddingAttended) -> Findings:
        if event.rows < ROWS or event.inverted < event.rows or event.lengths < ROWS:
            return
        self._steps.add(event.step)
        if len(self._steps) < SAMPLED or self.count() > 1:
            return
        known = "" if event.padding is None else f" (token {event.padding:g})"
        unknown = ": what it sees is the same in every sample" if event.padding is None else ""
        yield self.finding(
            event,
            f"The padding mask is inverted: in all {plural(event.rows, 'row')} with padding{known}, "
            f"attention sees the padding and none of the real positions{unknown}.",
            fix="Negate the mask: `key_padding_mask` is True where a position is ignored; a boolean `attn_mask` of "
            "`scaled_dot_product_attention` is True where it takes part.",
            evidence=facts(event, "function padding rows inverted lengths length", sampled_steps=SAMPLED),
        )
