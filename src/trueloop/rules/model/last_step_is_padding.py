"""MDL125 last-step-is-padding: the model reads the last step of padded sequences, which is padding.

What it sees
------------
In recorded training steps, the input of a model has rows of different lengths, filled at their ends with one token or
with zeros. The model takes `output[:, -1]`, or `output[:, :, -1]` of a convolution, or gathers the last step of every
row, or takes the last state of a recurrent layer that was not given the lengths.

Why it hurts
------------
For short rows the last step comes after many steps of padding: what the layer knew at the end of the content is washed
out, and a Transformer's last position is a padded one. Accuracy depends on how much a batch is padded.

Evidence
--------
The rows that end in padding, the positions of a row, and the share of padding.

Use instead
-----------
    packed = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
    _, (state, _) = self.lstm(packed)                       # the state at the end of the content
    last = output[torch.arange(len(x)), lengths - 1]        # or the right step of a padded output

When it is fine
---------------
Not reported: packed sequences, rows padded at their beginning, outputs gathered by their lengths, means and maxima over
all steps, a last state beside all steps (attention) or that a decoder begins with, and padding that is a small part of
the input.
"""

from typing import Final

from trueloop.event import LastStepRead, StepProgram
from trueloop.rules.rule import Findings, Rule, Severity

__all__ = ["LastStepIsPadding"]

STEPS: Final = 2  # recorded steps that must show it
LEAST: Final = 0.15  # of the positions
PADDED_ROWS: Final = 0.5  # of the rows must end in padding


class LastStepIsPadding(Rule, code="MDL125", severity=Severity.WARNING):
    not_applicable = "no training step was recorded"
    applies_after = (StepProgram,)
    explained_by = ("sequence-layer-over-batch",)

    def on_last_step_read(self, event: LastStepRead) -> Findings:
        if event.share < LEAST or event.padded < PADDED_ROWS * event.rows or self.count(event.place) != STEPS:
            return
        yield self.finding(
            event,
            f"This reads {event.how} of {event.positions}, but {event.padded} of {event.rows} rows end in padding "
            f"({event.share:.0%} of all positions): for these it is a step of padding.",
            fix="Pack the sequences with `pack_padded_sequence(x, lengths, ...)`, or take "
            "`output[torch.arange(len(output)), lengths - 1]`.",
            evidence={"reads": event.how, "rows": event.rows, "padded": event.padded, "positions": event.positions,
                      "share": round(event.share, 3)},
        )  # fmt: skip
