"""DAT123 lengths-all-one: every sequence is packed with the length 1, so all but its first step is ignored.

What it sees
------------
In all recorded steps, at least three, `pack_padded_sequence` is given lengths that are all 1, for sequences with more
steps than that; at least 32 sequences in all.

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
Not reported: batches with one step, and lines where any recorded length is above 1 (data with many short
sequences).
"""

from typing import Final

from trueloop.event import Place, RunEnded, StepProgram
from trueloop.rules.program_view import ProgramView
from trueloop.rules.rule import Findings, Rule, Severity

__all__ = ["LengthsAllOne"]

PROGRAMS: Final = 3
SEQUENCES: Final = 32


class LengthsAllOne(Rule, code="DAT123", severity=Severity.ERROR):
    not_applicable = "no sequence was packed in a recorded step"

    def __init__(self) -> None:
        self._packed: dict[Place | None, list[tuple[StepProgram, int, tuple[int, ...]]]] = {}
        self._longer: set[Place | None] = set()

    def on_step_program(self, event: StepProgram) -> None:
        view = ProgramView(event)
        for operation in event.operations:
            if operation.name != "_pack_padded_sequence" or len(operation.inputs) < 2:
                continue
            padded, lengths = (view.values[index] for index in operation.inputs[:2])
            if lengths.largest != 1 or min(padded.shape[:2]) < 2:
                self._longer.add(operation.place)
            else:
                self._packed.setdefault(operation.place, []).append((event, lengths.shape[0], padded.shape))

    def on_run_ended(self, _: RunEnded) -> Findings:
        for place, packed in self._packed.items():
            count = sum(number for _, number, _ in packed)
            if place in self._longer or len(packed) < PROGRAMS or count < SEQUENCES:
                continue
            event, shape = packed[0][0], packed[0][2]
            yield self.finding(
                event,
                f"All {count} recorded sequences are packed with the length 1, in batches like {list(shape)}: "
                "everything after their first step is ignored.",
                fix="Compute the lengths from this batch: `(tokens != pad).sum(dim=1)`.",
                evidence={"batch": list(shape), "sequences": count, "longest": 1},
                place=place,
            )
