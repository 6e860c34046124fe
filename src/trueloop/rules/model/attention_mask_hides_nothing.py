"""MDL124 attention-mask-hides-nothing: a mask of zeros and ones is added to the scores of attention.

What it sees
------------
A floating point mask that holds only zeros and ones, as a triangle or as padding at one end of each row. It is given
to `nn.MultiheadAttention`, a transformer layer or `F.scaled_dot_product_attention`, which add it; or your own line adds
it to the scores, or multiplies them with it, and a softmax then gives weight to every position.

Why it hurts
------------
Adding 1 multiplies a weight by 2.7 at most, and a score of 0 is a score like any other: nothing is hidden. A decoder
sees the token that it has to predict and copies it; training loss falls to nearly zero, and generation is useless.
Behind a padding mask, padding takes part in every average.

Evidence
--------
The function, whether the mask is added or multiplied, its form and its length.

Use instead
-----------
    mask = torch.ones(n, n, dtype=torch.bool).triu(1)                 # True: hidden (nn.Transformer layers)
    mask = nn.Transformer.generate_square_subsequent_mask(n)          # or 0 and -inf, which may be added
    scores = scores.masked_fill(tril == 0, float("-inf"))

When it is fine
---------------
Not reported: masks with other numbers (0 and -inf, biases by distance), learned masks, zeros and ones in another
pattern (the edges of a graph), scores that are masked in addition or after the softmax, and `is_causal=True`.
"""

from typing import Final

from trueloop.event import AddedMask, StepProgram
from trueloop.rules.rule import Findings, Rule, Severity, facts

__all__ = ["AttentionMaskHidesNothing"]

SAMPLED: Final = 2  # recorded steps that must show it


class AttentionMaskHidesNothing(Rule, code="MDL124", severity=Severity.ERROR):
    not_applicable = "no training step was recorded"
    applies_after = (StepProgram,)

    def __init__(self) -> None:
        self._steps: set[int] = set()

    def on_added_mask(self, event: AddedMask) -> Findings:
        self._steps.add(event.step)
        if len(self._steps) < SAMPLED or self.count() > 1:
            return
        form = "The causal mask" if event.causal else "The padding mask"
        hidden = "later positions" if event.causal else "padding"
        how = "added to the scores" if event.how == "added" else "multiplied with the scores before the softmax"
        yield self.finding(
            event,
            f"{form} holds zeros and ones as floating point numbers and is {how}: it hides nothing, attention sees "
            f"{hidden} too ({event.length} positions).",
            fix="Use a boolean mask (for `nn.MultiheadAttention` and the transformer layers, True hides a position), "
            "or one with 0 and `-inf`.",
            evidence=facts(event, "function how causal length", sampled_steps=SAMPLED),
        )
