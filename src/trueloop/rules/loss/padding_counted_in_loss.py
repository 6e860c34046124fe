"""LOS162 padding-counted-in-loss: the loss averages over the padding at the ends of the targets.

What it sees
------------
In recorded training steps, the targets of a cross entropy are rows of different lengths, filled at their ends with one
token that occurs nowhere else, and that token is neither `ignore_index` nor weighted with 0.

Why it hurts
------------
Padding is easy to predict. The loss, and a perplexity made from it, look better than they are, and a part of each
gradient teaches the model to predict padding: the more, the shorter the row. Batches with more padding weigh less.

Evidence
--------
The token, the rows that end in it, and the share of the targets that it is. The first padded position of each row is
not counted: it may mark the end.

Use instead
-----------
    loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=PAD)

When it is fine
---------------
Not reported: a loss with `reduction="none"` (a mask may follow), rows that all end alike, a token that also occurs
inside of rows, and padding that is a small part of the targets.
"""

from typing import Final

from trueloop.event import PaddedTargetsAveraged, StepProgram
from trueloop.rules.rule import Findings, Rule, Severity

__all__ = ["PaddingCountedInLoss"]

STEPS: Final = 2  # recorded steps that must show it
LEAST: Final = 0.15  # of the targets: less changes the mean by less than other choices do


class PaddingCountedInLoss(Rule, code="LOS162", severity=Severity.WARNING):
    not_applicable = "no training step was recorded"
    applies_after = (StepProgram,)

    def on_padded_targets_averaged(self, event: PaddedTargetsAveraged) -> Findings:
        if event.share < LEAST or self.count(event.place) != STEPS:
            return
        yield self.finding(
            event,
            f"`{event.function}` averages over padding: {event.padded} of {event.rows} rows of targets end in token "
            f"{event.token}, {event.share:.0%} of all targets.",
            fix=f"Leave it out: `ignore_index={event.token}`. If the token marks the end, keep its first position and "
            "replace the others by -100.",
            evidence={"token": event.token, "rows": event.rows, "padded": event.padded, "positions": event.positions,
                      "share": round(event.share, 3)},
        )  # fmt: skip
