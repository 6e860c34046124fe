"""DAT107 dataset-modified-in-place: reading a sample modifies the stored data, so the sample differs the next time.

What it sees
------------
A few samples of each dataset are drawn repeatedly in a copy of the process, before the first batch. With all random
states restored, the same index gave a different value; the data stored in the dataset had been written to; and with
that data restored, the first value came back. So reading the sample changed it. Or each draw writes something else (an
erased patch, masked words), and what one draw wrote remains in the sample of the next. In the run itself, a batch that
shares memory with the dataset (no collate function copied it) is compared again after its step, to see if the loop
wrote to it.

Data without a dataset class (a tensor, a list of tensors): in recorded steps, rows of the script's own tensor are
written in place and go into a model. Later the same rows have changed again, nearly all in one way:
more zeros, a different scale, a shifted mean.

Why it hurts
------------
The first epoch trains on the data, the second on the data divided by 255 twice, the third on values near zero. The loss
of the first epoch looks fine, and no error shows that later epochs use different data. With worker processes only some
of them are affected, because each has its own copy.

Evidence
--------
The dataset, the attribute that is written to, and the largest value of the same sample at two draws.

Use instead
-----------
    image = self.images[index] / 255            # a new tensor; not: image = self.images[index]; image /= 255
    x = x - mean                                # in the loop; not: x -= mean

When it is fine
---------------
Not reported: random augmentation (random states are restored between draws); a cache that is filled at the first draw;
a value that is clamped or scaled once; a counter; a stream behind an index;
states that every step writes (a simulation, hidden states), memories that the model writes, copies of one epoch.
Datasets on CUDA, datasets that write files or use the network, and streams without indices (IterableDataset) cannot be
tested, and the report says so.
"""

import ast
from typing import Final

from trueloop.event import BatchRewritten, DatasetRedrawn, Place, StoredRowsRewritten
from trueloop.rules.rule import Findings, Rule, Severity, facts, statement_at

__all__ = ["DatasetModifiedInPlace"]

LEAST: Final = 12  # rows that have changed
MOST: Final = 0.9  # of them, in one way


class DatasetModifiedInPlace(Rule, code="DAT107", severity=Severity.ERROR):
    not_applicable = "no user-defined dataset was read"

    def __init__(self) -> None:
        self._refused = ""

    def why_not_checked(self) -> str:
        return self._refused

    def on_dataset_redrawn(self, event: DatasetRedrawn) -> Findings:
        if event.refused:
            self._refused = f"{event.dataset} could not be tested: {event.refused}"
        if event.rewritten:
            first, second = event.values
            how = f"its largest value was {first:.4g} at one draw and {second:.4g} at the next"
            if f"{first:.4g}" == f"{second:.4g}":
                how = f"{event.rewritten_share:.1%} of its values are still changed when it is read again"
            yield self.finding(
                event,
                f"Reading a sample of {event.dataset} modifies {event.rewritten} in place: {how}.",
                fix="Create a new tensor (`x = x / 255`, or `.clone()` first) instead of writing to the stored one.",
                evidence=facts(event, "dataset modified=rewritten largest_values=values changed_share=rewritten_share"),
                place=event.rewritten_place,
            )

    def on_batch_rewritten(self, event: BatchRewritten) -> Findings:
        yield self.finding(
            event,
            f"The loop modifies a batch that shares memory with {event.dataset}.{event.attribute}: its largest value "
            f"was {event.before:.4g} when drawn and {event.after:.4g} after the step.",
            fix="Create a new tensor (`x = x - mean`) instead of writing to the batch, or return a clone from the "
            "dataset.",
            evidence=facts(event, "dataset modified=attribute", largest_values=[event.before, event.after]),
            place=_writing_line(event.place),
        )

    def on_stored_rows_rewritten(self, event: StoredRowsRewritten) -> Findings:
        how = _drift(event)
        if event.changed < max(LEAST, 0.5 * event.rows) or not how:
            return
        yield self.finding(
            event,
            f"{_shown(event.function)} writes into the stored rows themselves, in every epoch: of {event.rows} rows, "
            f"{event.changed} have changed again later ({how}).",
            fix="Write to a copy: `x = data[i].clone()` before the line that writes, or use `x = x - mean` instead of "
            "`x -= mean`.",
            evidence=facts(event, "function rows changed"),
        )


def _shown(function: str) -> str:
    signs = {"__setitem__": "x[...] = ", "__isub__": "-=", "__iadd__": "+=", "__imul__": "*=", "__itruediv__": "/="}
    return f"`{signs.get(function, function).strip()}`"


def _drift(event: StoredRowsRewritten) -> str:
    """How nearly all rows have changed; empty if each has changed in its own way."""
    needed = MOST * event.changed
    if sum(change > 0.005 for change in event.zeros) >= needed:
        return f"{sum(event.zeros) / event.changed:.0%} more zeros"
    if any(sum(size * way > (1 + 0.03 * way) * way for size in event.sizes) >= needed for way in (1, -1)):
        return f"their mean absolute value is {sorted(event.sizes)[event.changed // 2]:.2f} times that before"
    if any(sum(mean * way > 0.03 for mean in event.means) >= needed for way in (1, -1)):
        return f"their mean has moved by {sorted(event.means)[event.changed // 2]:+.2f} standard deviations"
    return ""


def _writing_line(place: Place | None) -> Place | None:
    """The first line of the loop that writes to a variable of the loop: `x -= mean`, `x.sub_(mean)`."""
    source, loop = statement_at(place)
    if not isinstance(loop, ast.For):
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
