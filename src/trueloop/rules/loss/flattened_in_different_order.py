"""LOS124 flattened-in-different-order: two tensors are combined row by row, and their rows are in different orders.

What it sees
------------
In a recorded training step a loss gets predictions that were `[a, b, classes]` and targets that were `[b, a]` before
both were flattened. They have equally many rows, so nothing fails. The same for two tensors that are added,
multiplied, compared, or joined side by side, and for the groups of `index_add` and `scatter_add`; and where `repeat`
made the rows of one and `repeat_interleave`, or a flattened second dimension, those of the other.

Why it hurts
------------
Row by row the loss compares a prediction with the target of another position of another sample. The model learns how
frequent the classes are, and no more.

Evidence
--------
Both orders, as the two sizes of which the rows were made, and the lines that made them.

Use instead
-----------
    loss = F.cross_entropy(logits.transpose(0, 1).reshape(-1, classes), tags.reshape(-1))
    owner = torch.arange(bags).repeat_interleave(cells)    # for x.reshape(bags * cells, -1)

or build recurrent and attention layers with `batch_first=True`.

When it is fine
---------------
Not reported: two sizes that are equal, tensors that were transposed before they were flattened, all pairs of two sets
(`repeat(b)` of one and `repeat_interleave(a)` of the other), repeated noise or constants, and rows that were cut into
two dimensions and flattened again.
"""

from typing import Final

from trueloop.event import Operation, StepProgram
from trueloop.event.operation_names import ELEMENTWISE, JOINS, LOSSES
from trueloop.rules.program_rows import RowOrder, row_orders
from trueloop.rules.program_view import ProgramView
from trueloop.rules.rule import Findings, Rule, Severity, on_line

__all__ = ["FlattenedInDifferentOrder"]

_GROUPED: Final = ("index_add", "index_add_", "scatter_add", "scatter_add_", "scatter_reduce", "scatter_reduce_")
"""Row r of the last tensor goes to the group in row r of the index."""


class FlattenedInDifferentOrder(Rule, code="LOS124", severity=Severity.ERROR):
    not_applicable = "no training step was recorded"

    def on_step_program(self, event: StepProgram) -> Findings:
        if event.phase != "training":
            return
        view = ProgramView(event)
        orders = row_orders(view)
        for operation in event.operations if len(orders) > 1 else ():
            one, other = (orders.get(value) for value in _pair(view, operation))
            if one is None or other is None or not _is_swapped(one, other):
                continue
            if self.count(frozenset({one.maker.place, other.maker.place})) != 1:
                continue
            yield self.finding(
                event,
                f"`{operation.name}` combines rows that were {_said(one, operation)} with rows that were "
                f"{_said(other, operation)}: they are in different orders.",
                fix="Transpose one of them before it is flattened (`logits.transpose(0, 1).reshape(-1, classes)`), or "
                "use `repeat_interleave` in place of `repeat`.",
                evidence={"first": [one.outer, one.inner], "second": [other.outer, other.inner],
                          "first_made": one.maker.place, "second_made": other.maker.place},
                place=operation.place,
            )  # fmt: skip


def _said(order: RowOrder, near: Operation) -> str:
    name, place = order.maker.name, order.maker.place
    how = f" by `{name}`" if "repeat" in name or name in ("tile", *JOINS) else " before they were flattened"
    return f"[{order.outer}, {order.inner}]{how}{'' if place == near.place else on_line(place, near.place)}"


def _is_swapped(one: RowOrder, other: RowOrder) -> bool:
    swapped = one.outer == other.inner and one.inner == other.outer and one.outer != one.inner
    return swapped and one.picked == other.picked


def _pair(view: ProgramView, operation: Operation) -> tuple[int, int]:
    """Two inputs of which row r of one belongs to row r of the other; -1 and -1 in other operations."""
    none, values = (-1, -1), operation.inputs
    if len(values) < 2 or not operation.outputs:
        return none
    first, second = values[:2]
    if operation.name in _GROUPED:
        if len(values) != 3 or view.option(operation, "dim", 1) != "0":
            return none
        first, second = values[1:3]
    elif operation.name not in LOSSES and operation.name not in ELEMENTWISE and operation.name not in JOINS:
        return none
    one, other, made = (view.values[index].shape for index in (first, second, operation.outputs[0]))
    if not one or not other or one[0] != other[0] or (operation.name in ELEMENTWISE and len(one) != len(other)):
        return none
    return none if operation.name in JOINS and made[:1] != one[:1] else (first, second)
