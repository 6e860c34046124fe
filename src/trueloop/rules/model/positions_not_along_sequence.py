"""MDL112 positions-not-along-sequence: position vectors run over the batch, or are the same for every time step.

What it sees
------------
In a recorded step, a model adds a table that depends on no data (a positional encoding or embedding) to a tensor of
[batch, time, features]. The added part is cut to the size of the batch and not to the time, or it is one row,
chosen by a size of the input (`pe[:, x.size(1)]`), the same at every time step. Or it holds sines of positions, and an
operation made all positions equal (`torch.arange(n) // n`).

Why it hurts
------------
The model cannot know the order of the time steps: attention without positions treats a sequence as a set. A table that
runs over the batch also makes the answer for a sample depend on its place in the batch.

Evidence
--------
The shapes of both operands and of the table.

Use instead
-----------
    x = x + self.pe[:, : x.size(1)]              # pe: [1, max_len, features], x: [batch, time, features]

When it is fine
---------------
Not reported: [time, batch, features] inputs, biases, class tokens and noise, one vector per sample (the time step of a
diffusion, a learned latent), rows chosen by a number that is no size of the input (a language, a level), embeddings of
equal block or segment numbers, and tensors whose first dimension is not certain to be the batch.
"""

import re

from trueloop.event import Operation, StepProgram
from trueloop.event.operation_names import ANY_ADDITION, RANDOM
from trueloop.rules.program_view import ProgramView
from trueloop.rules.rule import Findings, Rule, Severity

__all__ = ["PositionsNotAlongSequence"]


class PositionsNotAlongSequence(Rule, code="MDL112", severity=Severity.ERROR):
    not_applicable = "no table was added to a sequence in a recorded step"

    def on_step_program(self, event: StepProgram) -> Findings:
        view = ProgramView(event)
        for operation in event.operations:
            if operation.name not in ANY_ADDITION or operation.model < 0 or len(operation.inputs) != 2:
                continue
            one, other = operation.inputs
            for data, table in ((one, other), (other, one)):
                if data in view.from_data and table not in view.from_data:
                    yield from self._judge(event, view, operation, data, table)

    def _judge(self, event: StepProgram, view: ProgramView, operation: Operation, data: int, table: int) -> Findings:
        shape, added = view.values[data].shape, view.values[table].shape
        if len(shape) != 3 or shape[1] < 2:
            return
        lost = _lost_positions(view, table, shape) if len(added) > 1 and added[-2] in shape[:2] else None
        if lost is not None:
            yield self.finding(
                event,
                f"All {added[-2]} position vectors added to {list(shape)} are equal: `{lost.name.strip('_')}` makes "
                f"every position {view.values[lost.outputs[0]].smallest:g}, so the model cannot know the order.",
                fix="Keep the positions apart before the sine: `torch.arange(n) / n`, not `torch.arange(n) // n`.",
                evidence={"sequence": list(shape), "added": list(added)},
                place=lost.place,
            )
            return
        samples = view.sample_dim(data)
        if (view.sample_dim_by_use(operation.outputs[0]) if samples is None else samples) != 0:
            return
        rows = (1,) * (3 - len(added)) + added
        evidence = {"sequence": list(shape), "added": list(added)}
        if any((maker := view.maker(index)) is not None and maker.name in RANDOM for index in view.behind(table)):
            return
        if rows[0] == shape[0] > 1 and rows[1] == 1 and rows[0] != shape[1] and _is_cut(view, table, shape[0]):
            yield self.finding(
                event,
                f"Position vectors {list(added)} are added to {list(shape)} ([batch, time, features]): they differ "
                "between samples of the batch and are the same for all time steps.",
                fix="Index the table by the time dimension: `pe[:, : x.size(1)]` with a table of [1, max_len, "
                "features], or give the layer [time, batch, features].",
                evidence=evidence,
                place=operation.place,
            )
        elif rows[:2] == (1, 1) and (length := _one_row_of(view, table, shape)) >= shape[1]:
            yield self.finding(
                event,
                f"One row of a table of {length} positions is added to every time step of {list(shape)} "
                "([batch, time, features]), so the model cannot know their order.",
                fix="Take a slice of the table, not one row: `pe[:, : x.size(1)]`.",
                evidence={**evidence, "table_rows": length},
                place=operation.place,
            )


def _lost_positions(view: ProgramView, table: int, shape: tuple[int, ...]) -> Operation | None:
    """The operation that made all positions equal, before the sines that the table holds."""
    contents = view.contents(table)
    makers = [(index, maker) for index in contents if (maker := view.maker(index)) is not None]
    starts = [index for index, maker in makers if maker.name == "arange" and view.values[index].shape[:1] == shape[1:2]]
    if len(starts) != 1 or view.values[starts[0]].constant or not any(m.name in ("sin", "cos") for _, m in makers):
        return None
    reached, lost = set(starts), None
    for operation in view.operations:
        if reached.isdisjoint(operation.inputs):
            continue
        for index in operation.outputs:
            value = view.values[index]
            if value.constant and value.shape[:1] == shape[1:2]:
                lost = operation if lost is None and index in contents else lost
            elif index in contents:
                reached.add(index)
    return None if table in reached else lost


def _is_cut(view: ProgramView, value: int, size: int) -> bool:
    """It was cut out of a table with more rows, or looked up there."""
    for _ in range(6):
        maker = view.maker(value)
        if maker is None or not maker.inputs:
            return False
        if maker.name == "embedding":
            return len(maker.inputs) > 1 and view.values[maker.inputs[1]].shape[0] > size
        source = view.values[maker.inputs[0]]
        if maker.name in ("__getitem__", "narrow") and max(source.shape[:-1], default=0) > size:
            return source.origin in ("parameter", "buffer", "operation")
        value = maker.inputs[0]
    return False


def _one_row_of(view: ProgramView, value: int, shape: tuple[int, ...]) -> int:
    """The rows of the table that one row was taken from, by a size of the input as the index; 0: it was not."""
    for _ in range(6):
        maker = view.maker(value)
        if maker is None or not maker.inputs:
            return 0
        source = view.values[maker.inputs[0]].shape
        if maker.name in ("__getitem__", "select") and source and source[-1] == shape[2]:
            rows = [size for size in source[:-1] if size > 1]
            return rows[0] if len(rows) == 1 and _numbers(maker) & {shape[0], shape[1], shape[1] - 1} else 0
        value = maker.inputs[0]
    return 0


def _numbers(operation: Operation) -> set[int]:
    """The integers of an index, without those of slices."""
    text = re.sub(r"slice\([^)]*\)", "", " ".join(value for _, value in operation.options))
    return {int(number) for number in re.findall(r"(?<![\w.-])\d+(?![\w.])", text)}
