"""MDL113 sequence-layer-over-batch: an attention or recurrent layer runs over the samples of the batch.

What it sees
------------
In a recorded step, a `MultiheadAttention`, `LSTM`, `GRU` or `RNN` that expects [time, batch, features] is given a
tensor whose first dimension is certainly that of the samples: a batch that PyTorch stacked, rows picked by an index, or
a size that differs between calls as batch sizes do.

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
Not reported: inputs that are transposed to [time, batch, features] first, unbatched inputs, and tensors whose first
dimension is not certain to be the batch.
"""

from typing import Final

from trueloop.event import Operation, Place, StepProgram
from trueloop.rules.program_view import ProgramView
from trueloop.rules.rule import Findings, Rule, Severity

__all__ = ["SequenceLayerOverBatch"]

_RECURRENT: Final = ("lstm", "gru", "rnn_tanh", "rnn_relu")
RESIZED: Final = 4  # batches of training and evaluation differ that much in size; sequences hardly do
_BATCH_FIRST: Final = 8  # position of batch_first among the arguments of a recurrent operation


class SequenceLayerOverBatch(Rule, code="MDL113", severity=Severity.ERROR):
    not_applicable = "no attention or recurrent layer was seen in a recorded step"

    def __init__(self) -> None:
        self._uncertain: dict[Place | None, tuple[int, ...]] = {}  # shapes whose first dimension is not known yet

    def on_step_program(self, event: StepProgram) -> Findings:
        view = ProgramView(event)
        for operation in event.operations:
            recurrent = operation.name in _RECURRENT
            if not recurrent and operation.name != "multi_head_attention_forward":
                continue
            if recurrent and view.option(operation, "batch_first", _BATCH_FIRST) != "False":
                continue
            shape = view.values[operation.inputs[0]].shape
            if len(shape) != 3 or shape[0] < 2 or shape[1] < 2:
                continue
            evidence = self._evidence(view, operation, shape)
            if not evidence:
                continue
            layer = operation.name.partition("_")[0].upper() if recurrent else "MultiheadAttention"
            yield self.finding(
                event,
                f"`{layer}` without `batch_first=True` is given {list(shape)}, which has the samples in its first "
                f"dimension ({evidence}): it runs over the samples, not over the {shape[1]} steps of each.",
                fix="Build the layer with `batch_first=True`, or transpose its input.",
                evidence={"operation": operation.name, "shape": list(shape), "first_dimension": evidence},
                place=operation.place,
            )

    def _evidence(self, view: ProgramView, operation: Operation, shape: tuple[int, ...]) -> str:
        """Why the first dimension is that of the samples; empty if it is not certain."""
        if view.sample_dim(operation.inputs[0]) == 0:
            return f"{shape[0]} rows of the batch"
        maker = view.maker(operation.inputs[0])
        if maker is not None and maker.name in ("transpose", "permute", "swapaxes", "movedim"):
            return ""
        known = self._uncertain.setdefault(operation.place, shape)
        larger, smaller = max(known[0], shape[0]), min(known[0], shape[0])
        if known[1:] == shape[1:] and larger >= RESIZED * smaller:
            return f"{smaller} in one call and {larger} in another, with the same {shape[1]} steps"
        return ""
