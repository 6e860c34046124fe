"""DAT123 lengths-all-one: every sequence is packed with the length 1, so all but its first step is ignored.

What it sees
------------
In recorded steps, `pack_padded_sequence` is given lengths that are all 1, for sequences with more steps than that.

Why it hurts
------------
The recurrent layer reads the first step of each sequence and nothing else. The lengths were computed on a wrong
dimension, or come from a column or file that is not about this data.

Evidence
--------
The shape of the padded batch, and the lengths.

Use instead
-----------
    lengths = (tokens != pad).sum(dim=1)

When it is fine
---------------
Not reported: batches with one step, and lengths that vary or are longer than 1.
"""

from collections import Counter
from typing import Final

from trueloop.event import Place, StepProgram
from trueloop.rules.program_view import ProgramView
from trueloop.rules.rule import Findings, Rule, Severity

__all__ = ["LengthsAllOne"]

PROGRAMS: Final = 2


class LengthsAllOne(Rule, code="DAT123", severity=Severity.ERROR):
    not_applicable = "no sequence was packed in a recorded step"

    def __init__(self) -> None:
        self._seen: Counter[Place | None] = Counter()

    def on_step_program(self, event: StepProgram) -> Findings:
        view = ProgramView(event)
        for operation in event.operations:
            if operation.name != "_pack_padded_sequence" or len(operation.inputs) < 2:
                continue
            padded, lengths = (view.values[index] for index in operation.inputs[:2])
            if lengths.largest != 1 or lengths.shape[0] < 4 or min(padded.shape[:2]) < 2:
                continue
            self._seen[operation.place] += 1
            if self._seen[operation.place] == PROGRAMS:
                yield self.finding(
                    event,
                    f"All {lengths.shape[0]} sequences of a batch {list(padded.shape)} are packed with the length 1: "
                    "everything after their first step is ignored.",
                    fix="Compute the lengths from this batch: `(tokens != pad).sum(dim=1)`.",
                    evidence={"batch": list(padded.shape), "longest": 1},
                    place=operation.place,
                )
