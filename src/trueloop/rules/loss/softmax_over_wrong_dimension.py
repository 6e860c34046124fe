"""LOS112 softmax-over-wrong-dimension: softmax normalizes over the samples or over pixels, not over the classes.

What it sees
------------
In a recorded step, the `softmax` or `log_softmax` of a prediction runs over the dimension of the samples, or over the
height or width of a convolution's output, which has its classes in dimension 1.

Why it hurts
------------
The numbers are no probabilities of classes: the samples of a batch (or the pixels of a row) compete with one another,
and the scores of one sample do not sum to 1.

Evidence
--------
The shape of the scores, the dimension of the softmax, and the dimension of the classes.

Use instead
-----------
    probabilities = logits.softmax(dim=1)        # [batch, classes] or [batch, classes, height, width]

When it is fine
---------------
Not reported: attention, a softmax over flattened pixels (keypoints), and tensors whose dimensions are not certain.
Contrastive losses that compare a batch with itself (`[B, B]`) may normalize over either dimension.
"""

from typing import Final, final

from trueloop.event import Operation, StepProgram
from trueloop.finding import Severity
from trueloop.rules.program_view import ProgramView
from trueloop.rules.rule import Findings, Rule

__all__ = ["SoftmaxOverWrongDimension"]

_CONVOLUTIONS: Final = ("conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
_KEEPS: Final = frozenset({"mul", "div", "__truediv__", "__mul__", "__rmul__", "add", "float", "interpolate"})


@final
class SoftmaxOverWrongDimension(Rule):
    code = "LOS112"
    name = "softmax-over-wrong-dimension"
    severity = Severity.ERROR
    not_applicable = "no softmax was seen in a recorded step"

    def on_step_program(self, event: StepProgram) -> Findings:
        view = ProgramView(event)
        for operation in event.operations:
            if operation.name not in ("softmax", "log_softmax") or not operation.inputs:
                continue
            dim = view.dim_of(operation)
            shape = view.values[operation.inputs[0]].shape
            if dim is None or operation.inputs[0] not in view.learned or shape[dim] < 2:
                continue
            if wrong := self._why(view, operation, dim):
                yield self.finding(
                    event,
                    f"`{operation.name}(dim={dim})` of scores {list(shape)} normalizes over {wrong}.",
                    fix="Normalize over the dimension of the classes: `dim=1`.",
                    evidence={"shape": list(shape), "dim": dim, "classes_in_dim": 1},
                    place=operation.place,
                )

    def _why(self, view: ProgramView, operation: Operation, dim: int) -> str:
        scores = operation.inputs[0]
        shape = view.values[scores].shape
        if dim == 0 and len(shape) == 2 and shape[0] != shape[1] and view.sample_dim(scores) == 0:
            return f"the {shape[0]} samples of the batch, not over the {shape[1]} classes"
        if dim >= 2 and len(shape) >= 3 and _is_convolution(view, scores):
            side = "height" if dim == len(shape) - 2 else "width"
            return f"{side} ({shape[dim]} pixels), not over the {shape[1]} channels"
        return ""


def _is_convolution(view: ProgramView, value: int) -> bool:
    """The output of a convolution, perhaps scaled."""
    for _ in range(6):
        maker = view.maker(value)
        if maker is None or not maker.inputs:
            return False
        if maker.name in _CONVOLUTIONS:
            return view.values[maker.outputs[0]].shape[1] > 1
        if maker.name not in _KEEPS:
            return False
        value = maker.inputs[0]
    return False
