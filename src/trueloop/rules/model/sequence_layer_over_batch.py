"""MDL113 sequence-layer-over-batch: an attention or recurrent layer runs over the samples of the batch.

What it sees
------------
In a recorded step, a `MultiheadAttention`, `LSTM`, `GRU` or `RNN` that expects [time, batch, features] is given a
tensor whose first dimension is that of the samples: a batch that PyTorch stacked, rows picked by an index, or the
model's output has one row for each. Attention without a mask is also suspected, as a warning, where the first size is
the same in all training steps and one different size, at least four times apart, in evaluation.

Why it hurts
------------
The layer treats the samples as time steps: the answer for one sample depends on the others in its batch, and the time
steps of a sample do not see one another. Results change with the batch size and the order of the samples.

Evidence
--------
The layer's operation, the shape that it was given, and the number of samples.

Use instead
-----------
    self.attention = nn.MultiheadAttention(dim, heads, batch_first=True)

When it is fine
---------------
Not reported: inputs that are transposed to [time, batch, features] first, unbatched inputs, lists of time steps that
were stacked, sequences whose length varies, and models with attention along both dimensions (between samples on
purpose).
"""

from collections import defaultdict
from typing import Final

from trueloop.event import Operation, Place, RunEnded, StepProgram
from trueloop.event.operation_names import RECURRENT, TRANSPOSES
from trueloop.rules.program_view import ProgramView
from trueloop.rules.rule import Findings, Rule, Severity

__all__ = ["SequenceLayerOverBatch"]

_ATTENTION: Final = "multi_head_attention_forward"
RESIZED: Final = 4  # batches of training and evaluation differ that much in size; sequences hardly do
PROGRAMS: Final = 3  # training steps with one size
_BATCH_FIRST: Final = 8  # position of batch_first among the arguments of a recurrent operation


class SequenceLayerOverBatch(Rule, code="MDL113", severity=Severity.ERROR):
    not_applicable = "no attention or recurrent layer was seen in a recorded step"
    explained_by = ("samples-mixed-in-batch",)  # measured, where the batch dimension is known

    def __init__(self) -> None:
        self._sizes: dict[Place | None, dict[str, list[tuple[int, ...]]]] = defaultdict(lambda: defaultdict(list))
        """Shapes given to attention whose first dimension is unknown, in training and in evaluation."""
        self._clear: set[Place | None] = set()
        self._event: StepProgram | None = None

    def on_step_program(self, event: StepProgram) -> Findings:
        view = ProgramView(event)
        layers = [operation for operation in event.operations if _is_time_first(view, operation)]
        shapes = {view.values[layer.inputs[0]].shape for layer in layers}
        for operation in layers:
            shape = view.values[operation.inputs[0]].shape
            if len(shape) != 3 or shape[0] < 2 or shape[1] < 2 or (shape[1], shape[0], shape[2]) in shapes - {shape}:
                self._clear.add(operation.place)
                continue
            evidence = _evidence(view, operation, shape)
            if not evidence:
                self._note(view, operation, shape)
                continue
            self._clear.add(operation.place)
            yield self.finding(
                event,
                f"`{_layer(operation)}` without `batch_first=True` is given {list(shape)}, which has the samples in "
                f"its first dimension ({evidence}): it runs over the samples, not over the {shape[1]} steps of each.",
                fix="Build the layer with `batch_first=True`, or transpose its input.",
                evidence={"operation": operation.name, "shape": list(shape), "first_dimension": evidence},
                place=operation.place,
            )

    def _note(self, view: ProgramView, operation: Operation, shape: tuple[int, ...]) -> None:
        maker = view.maker(operation.inputs[0])
        masks = [view.values[i] for i in operation.inputs if view.values[i].origin != "parameter"]
        masked = any(value.shape in ((shape[0], shape[0]), (shape[1], shape[0])) for value in masks)
        if operation.name != _ATTENTION or masked or (maker is not None and maker.name in TRANSPOSES):
            self._clear.add(operation.place)
            return
        self._event = view.program
        self._sizes[operation.place][view.program.phase].append(shape)

    def on_run_ended(self, _: RunEnded) -> Findings:
        for place, phases in self._sizes.items():
            training, other = phases["training"], set(phases["evaluation"]) - set(phases["training"])
            if place in self._clear or self._event is None or len(training) < PROGRAMS or len(set(training)) != 1:
                continue
            if len(other) != 1:
                continue
            here, there = training[0], other.pop()
            if here[1:] != there[1:] or max(here[0], there[0]) < RESIZED * min(here[0], there[0]):
                continue
            yield self.finding(
                self._event,
                f"`MultiheadAttention` without `batch_first=True` is given {list(here)} in training and {list(there)} "
                f"in evaluation: {here[0]} and {there[0]} look like numbers of samples, and no mask contradicts. It "
                f"runs over the samples, not over the {here[1]} steps of each.",
                fix="Build the layer with `batch_first=True`, or transpose its input.",
                evidence={"training": list(here), "evaluation": list(there)},
                place=place,
                severity=Severity.WARNING,
            )


def _is_time_first(view: ProgramView, operation: Operation) -> bool:
    if operation.name in RECURRENT:
        return view.option(operation, "batch_first", _BATCH_FIRST) == "False"
    return operation.name == _ATTENTION


def _layer(operation: Operation) -> str:
    return "MultiheadAttention" if operation.name == _ATTENTION else operation.name.partition("_")[0].upper()


def _evidence(view: ProgramView, operation: Operation, shape: tuple[int, ...]) -> str:
    """Why the first dimension is that of the samples; empty if it is not certain."""
    outputs = _outputs(view, operation)
    if any(out[:1] == (shape[1],) and shape[0] not in out for out in outputs):
        return ""
    if view.sample_dim(operation.inputs[0]) == 0:
        return f"{shape[0]} rows of the batch"
    if any(len(out) <= 2 and out[:1] == (shape[0],) and shape[1] not in out for out in outputs):
        return f"the model's output has {shape[0]} rows too"
    return ""


def _outputs(view: ProgramView, operation: Operation) -> list[tuple[int, ...]]:
    """The shapes of the outputs of models that were computed from the layer's result."""
    reached, waiting = set(operation.outputs), list(operation.outputs)
    while waiting:
        for reader in view.readers.get(waiting.pop(), ()):
            if view.in_model(reader):
                waiting += [index for index in reader.outputs if index not in reached]
                reached.update(reader.outputs)
    uses = [use for use in view.program.models if use.model == operation.model]
    return [view.values[i].shape for use in uses for i in use.outputs if i in reached and view.values[i].shape]
