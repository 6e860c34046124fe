"""DAT107 dataset-modified-in-place: drawing a sample changes what is stored, so the same sample is another one the next time.

What it sees
------------
A few samples of each dataset are drawn again and again in a copy of the process, before the first batch. With every
random generator put back, the same key gave another value; the data that the dataset stores had been written into; and
with that data put back, the first value came again. So the draw itself is what changed it. In the run itself, a batch
that is the dataset's own memory (no collate function has copied it) is looked at again after its step: has the loop
written into it?

Why it hurts
------------
The first epoch trains on the data, the second on the data divided by 255 twice, the third on noise around zero. The
loss of the first epoch looks fine, and nothing says that the later ones are of other data. With worker processes it
shows only in some of them, because each has a copy of its own.

Evidence
--------
The dataset, the attribute that is written into, and the largest number of the same sample at two draws.

Use instead
-----------
    image = self.images[index] / 255            # a new tensor; not: image = self.images[index]; image /= 255
    x = x - mean                                # in the loop; not: x -= mean

When it is fine
---------------
Random augmentation is no change: the generators are put back between the draws. Nor is a cache that is filled at the
first draw, a value that is clamped or scaled once and then stays, a counter, or a stream behind an index. Datasets on
CUDA, those that write files or talk to others when they are asked, and streams without keys (IterableDataset) cannot be
rehearsed, and the report says so.
"""

from __future__ import annotations

import ast
from typing import final

from trueloop.event import BatchRewritten, DatasetRedrawn, Place
from trueloop.finding import Severity
from trueloop.rules.rule import Findings, Rule
from trueloop.usercode.source import source_of

__all__ = ["DatasetModifiedInPlace"]


@final
class DatasetModifiedInPlace(Rule):
    code = "DAT107"
    name = "dataset-modified-in-place"
    severity = Severity.ERROR
    not_applicable = "no dataset of the script's own was read"

    def __init__(self) -> None:
        self._refused = ""

    def why_not_checked(self) -> str:
        return self._refused

    def on_dataset_redrawn(self, event: DatasetRedrawn) -> Findings:
        if event.refused:
            self._refused = f"{event.dataset} could not be rehearsed: {event.refused}"
        if event.rewritten:
            first, second = event.values
            yield self.finding(
                event,
                f"Drawing a sample of {event.dataset} writes into {event.rewritten}: the largest number of the same sample was {first:.4g} "
                f"at one draw and {second:.4g} at the next, with no random number between them.",
                fix="Make a new tensor or array (x = x / 255, or .clone() first) instead of writing into the stored one.",
                evidence={
                    "dataset": event.dataset,
                    "written_into": event.rewritten,
                    "largest_number_at_each_draw": list(event.values),
                },
                place=event.rewritten_place,
            )

    def on_batch_rewritten(self, event: BatchRewritten) -> Findings:
        yield self.finding(
            event,
            f"The loop writes into a batch that is the memory of {event.dataset}.{event.attribute} itself: its largest number was "
            f"{event.before:.4g} when it was drawn and {event.after:.4g} after the step, and the next epoch draws that.",
            fix="Make a new tensor (x = x - mean) instead of writing into the batch, or let the dataset give a clone.",
            evidence={
                "dataset": event.dataset,
                "written_into": event.attribute,
                "largest_number": [event.before, event.after],
            },
            place=_writing_line(event.place),
        )


def _writing_line(place: Place | None) -> Place | None:
    """The first line of the loop that writes into what the loop draws: `x -= mean`, `x.sub_(mean)`."""
    source = source_of(place.path) if place is not None else None
    loop = source.statement(place.line) if source is not None and place is not None else None
    if source is None or not isinstance(loop, ast.For):
        return place
    drawn = {node.id for node in ast.walk(loop.target) if isinstance(node, ast.Name)}
    for node in (inner for statement in loop.body for inner in ast.walk(statement)):
        written: ast.expr | None = None
        if isinstance(node, ast.AugAssign):
            written = node.target
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr.endswith("_"):
            written = node.func.value
        while isinstance(written, (ast.Subscript, ast.Attribute)):
            written = written.value
        if isinstance(written, ast.Name) and written.id in drawn:
            return Place(source.path, node.lineno)  # type: ignore[attr-defined]
    return place
