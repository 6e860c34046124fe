"""DAT118 same-batch-evaluated: an evaluation scores one batch again and again.

What it sees
------------
A line calls a model in eval mode several times in a row. Each call gets a new tensor with the same rows, and the
outputs are equal too. No different batch ever arrives there.

Why it hurts
------------
The score is that of one batch, often of one class, and looks like the score of all validation data.
`next(iter(loader))` inside a loop begins a new pass every time.

Evidence
--------
The number of calls, and of different batches among them.

Use instead
-----------
    batches = iter(loader)
    for _ in range(20):
        x, y = next(batches)

When it is fine
---------------
Not reported: one fixed batch that is looked at once per epoch (samples to draw, a sanity check), the same tensor again
(to measure the speed), and equal rows with different outputs (noise, sampled or pruned weights, decoding step by step).
"""

from typing import Final

from trueloop.event import RowsCompared
from trueloop.rules.rule import Findings, Rule, Severity

__all__ = ["SameBatchEvaluated"]

LEAST_CALLS: Final = 4
IN_A_ROW: Final = 3


class SameBatchEvaluated(Rule, code="DAT118", severity=Severity.WARNING):
    not_applicable = "no model was called without gradients on rows of tensors"

    def on_rows_compared(self, event: RowsCompared) -> Findings:
        if event.calls < LEAST_CALLS or event.distinct_batches != 1 or event.in_a_row < IN_A_ROW:
            return
        yield self.finding(
            event,
            f"All {event.calls} calls of the model on this line got the same {event.rows} rows: one batch is evaluated "
            "again and again.",
            fix="Make the iterator before the loop (`batches = iter(loader)`), or loop over the loader.",
            evidence={"calls": event.calls, "different_batches": 1, "rows": event.rows},
        )
