"""DAT115 inputs-identical: every sample that enters the model is the same.

What it sees
------------
Over many training calls, the sampled rows of a model's only input are all equal, within batches and between them,
while the targets of its loss function vary. Or most of them (60%) are equal, the others all different, and some
evaluated batch has no such row. Or the rows of each batch are equal to one another, and batches differ. Or a file of
arrays that the script read has long stretches of rows (20% or more) that hold one value throughout, although what
belongs to these rows varies (the recordings they were made from, their labels), and such a row comes again and again in
the model's only input.

Why it hurts
------------
Without a difference between the inputs there is nothing to learn: the best answer is the mean of the targets. The
usual causes are a stale or constant cache, a buffer that is overwritten before it is copied (a replay buffer that keeps
the same tensor for every step), and a broken file reader.

Evidence
--------
The number of rows compared, and the shape of the input.

Use instead
-----------
    for path in paths:
        images.append(read(path).clone())        # not the same buffer again and again

When it is fine
---------------
Not reported: fewer than 64 rows, batches of one sample (deep image prior), learned inputs, models with other inputs
that are not compared (time steps, a hidden state), one tensor that the script gives in every step, outputs of other
models, constant inputs without a target (a bandit's state), and one row that is repeated on purpose (`expand`,
`repeat`). Rows of a file that were never written and that the script does not use.
"""

from typing import Final

from trueloop.event import InputsSummarized, RowsNeverWritten, RunEnded, StepProgram, TargetsSummarized
from trueloop.rules.program_view import ProgramView
from trueloop.rules.rule import Finding, Findings, Rule, Severity

__all__ = ["InputsIdentical"]

LEAST_ROWS: Final = 64
LEAST_BATCHES: Final = 6
_REPEATS: Final = ("expand", "expand_as", "repeat", "repeat_interleave", "tile", "broadcast_to")
SHARE: Final = 0.9
MOSTLY: Final = 0.6
ABSENT: Final = 0.05  # share of that row in an evaluating call
CONTINUOUS: Final = 0.8  # distinct values, of the distinct rows; and columns with so many
COLUMNS: Final = 3
USED: Final = 0.5  # of the share of a file's empty rows, among the rows that enter the model
OTHERS: Final = 10  # rows that are different


class InputsIdentical(Rule, code="DAT115", severity=Severity.ERROR):
    not_applicable = "no model was trained on rows of tensors"

    def __init__(self) -> None:
        self._inputs: dict[int, list[InputsSummarized]] = {}
        self._varied: set[int] = set()
        """Models whose targets vary."""
        self._sampled: set[int] = set()
        """Models whose inputs come from a loader, or are picked from data."""
        self._repeated: set[int] = set()
        self._outside: set[int] = set()
        """Models whose inputs were made of arrays."""
        self._empty: list[RowsNeverWritten] = []
        self._equal = 0.0
        """Share of one row among the rows that enter a model with one input, in training or in evaluation."""

    def on_rows_never_written(self, event: RowsNeverWritten) -> None:
        self._empty.append(event)

    def on_step_program(self, event: StepProgram) -> None:
        view = ProgramView(event)
        made = {use.model for use in event.models if any(view.values[i].origin == "outside" for i in use.inputs)}
        self._outside |= made
        self._repeated |= {use.model for use in event.models if any(_is_repeated(view, index) for index in use.inputs)}
        self._sampled |= {use.model for use in event.models if use.grad and any(map(view.is_sampled, use.inputs))}

    def on_inputs_summarized(self, event: InputsSummarized) -> None:
        if event.arguments == 1 and event.rows >= LEAST_ROWS:
            self._equal = max(self._equal, event.identical_rows)
        if event.phase == "training":
            self._inputs.setdefault(event.model, []).append(event)

    def on_targets_summarized(self, event: TargetsSummarized) -> None:
        if event.training is not None and event.training.distinct > 1:
            self._varied.add(event.model)

    def on_run_ended(self, _: RunEnded) -> Findings:
        for empty in self._empty:
            if self._equal >= USED * empty.empty / empty.rows:
                yield self._never_written(empty)
                return
        for model, inputs in self._inputs.items():
            first = inputs[0]
            if model in self._sampled and len(inputs) == 1 and _mostly_one(first):
                yield self._mostly(first)
                continue
            alike, batches = first.uniform
            if first.distinct_rows > 1 and batches >= LEAST_BATCHES and alike >= SHARE * batches:
                if first.arguments == 1 and model in (self._varied & (self._sampled | self._outside)) - self._repeated:
                    yield self._in_batches(first)
                continue
            if first.rows < LEAST_ROWS or any(event.identical_rows < SHARE for event in inputs):
                continue
            if first.shape[0] < 2 or first.arguments > len(inputs) or model not in self._varied & self._sampled:
                continue
            yield self.finding(
                first,
                f"{first.identical_rows:.0%} of {first.rows} sampled training rows of `{first.name}` are equal: "
                "there is nothing to learn from them.",
                fix="Look at the first samples of the data set (`dataset[0]`, `dataset[1]`): a cache, a buffer or a "
                "reader returns the same one every time.",
                evidence={"rows": first.rows, "equal": round(first.identical_rows, 3), "shape": list(first.shape)},
            )

    def _in_batches(self, event: InputsSummarized) -> Finding:
        alike, batches = event.uniform
        return self.finding(
            event,
            f"In {alike} of {batches} sampled training batches of `{event.name}` all rows are one and the same, "
            "although their targets differ and batches differ: the stored rows are one object that is overwritten.",
            fix="Store a copy: `buffer.append(state.clone())`, or `.copy()` of an array.",
            evidence={"batches": batches, "uniform": alike, "shape": list(event.shape)},
        )

    def _never_written(self, event: RowsNeverWritten) -> Finding:
        array = f"`{event.array}` of `{event.file}`" if event.array else f"`{event.file}`"
        beside = f"`{event.beside}`" if event.beside != event.file else "the same file"
        return self.finding(
            event,
            f"{event.empty:,} of the {event.rows:,} rows of {array} hold the value {event.value:g} throughout (from "
            f"row {event.first:,} on), although the rows of {beside} with the same numbers vary. They enter the model: "
            f"{self._equal:.0%} of the rows of one phase are one and the same row. The file was not written to its "
            "end.",
            fix="Make the file again. Write it under a different name and rename it when it is complete, and check "
            "that no row is constant when it is read.",
            evidence={"file": event.file, "rows": event.rows, "empty": event.empty, "first": event.first,
                      "value": event.value, "equal_inputs": round(self._equal, 3), "beside": event.beside},
        )  # fmt: skip

    def _mostly(self, event: InputsSummarized) -> Finding:
        return self.finding(
            event,
            f"{event.identical_rows:.0%} of {event.rows} sampled training rows of `{event.name}` are one and the same "
            f"row, the other {event.distinct_rows - 1} are all different, and evaluated rows are not like it: most of "
            "the training data is missing.",
            fix="Look at the stored rows (`(x == x[-1]).all(1).sum()`): a cache or a file that was not written to its "
            "end, or a reader that returns a default. Make it again.",
            evidence={"rows": event.rows, "equal": round(event.identical_rows, 3), "distinct": event.distinct_rows,
                      "equal_in_evaluation": event.identical_elsewhere},
        )  # fmt: skip


def _is_repeated(view: ProgramView, index: int) -> bool:
    makers = [view.maker(value) for value in view.behind(index)]
    return any(maker is not None and maker.name in _REPEATS for maker in makers)


def _mostly_one(event: InputsSummarized) -> bool:
    """One row again and again, among rows of continuous numbers."""
    if event.rows < LEAST_ROWS or event.identical_rows < MOSTLY or event.arguments > 1 or event.shape[0] < 2:
        return False
    varied = [column for column in event.columns if column.distinct >= CONTINUOUS * event.distinct_rows]
    absent = event.identical_elsewhere is not None and event.identical_elsewhere <= ABSENT
    many = len(varied) >= max(COLUMNS, CONTINUOUS * len(event.columns)) and len(event.shape) == 2
    return absent and many and event.distinct_rows >= OTHERS
