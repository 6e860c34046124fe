"""LOS112 softmax-over-wrong-dimension: softmax normalizes over the samples or over pixels, not over the classes.

What it sees
------------
In a recorded step, the `softmax` or `log_softmax` of a prediction runs over the dimension of the samples, or over the
height or width of a convolution's output, and the result is used as probabilities of classes in dimension 1: for an
`argmax(1)`, for a loss with class numbers, against a one-hot target, or as the log-weights of a mixture (a
`logsumexp(dim=1)` of their sum with other scores). Or its result goes into `nll_loss`, or into a `gather` of class
numbers, perhaps after a mean over time or a transpose, and the softmax ran over another dimension than the one that
the loss reads as classes. Or the target that it is multiplied with, subtracted from or compared with sums to 1 over
another dimension (`softmax(dim=1)`, a division by `sum(1, keepdim=True)`). Or a table of attention among the positions
of one sequence or graph is normalized over its second-last dimension, and a product sums over its last one.

Why it hurts
------------
The numbers are not probabilities of classes: the samples of a batch (or the pixels of a row) compete with one another,
and the scores of one sample do not sum to 1. Weights of attention that are normalized over the positions that receive
do not add up to 1 in a sum over the positions that are read: some results are many times as large as others.

Evidence
--------
The shape of the scores, the dimension of the softmax, and the dimension of the classes.

Use instead
-----------
    probabilities = logits.softmax(dim=1)        # [batch, classes] or [batch, classes, height, width]

When it is fine
---------------
Not reported: pooling weights, attention between different things (slots, clusters and capsules share out what they
read), weights that are divided by their sum afterwards, transitions between states, a softmax over pixels that is
compared with positions (keypoints, lanes), targets that are computed from the same scores, and tensors whose
dimensions are not certain.
Contrastive losses that compare a batch with itself (`[B, B]`) may normalize over either dimension.
"""

from typing import Final

from trueloop.event import Operation, StepProgram
from trueloop.event.operation_names import (
    ADDITIONS,
    CLAMPS,
    CONVOLUTIONS,
    ELEMENTWISE,
    LABEL_LOSSES,
    LOSSES,
    NEGATIONS,
    SCALINGS,
    VIEWS,
)
from trueloop.rules.program_attention import sums_over_other
from trueloop.rules.program_dims import Dims, dims_after
from trueloop.rules.program_distributions import SOFTMAX, compared_over, normalized_over
from trueloop.rules.program_view import ProgramView
from trueloop.rules.rule import Finding, Findings, Rule, Severity

__all__ = ["SoftmaxOverWrongDimension"]

_KEEPS: Final = SCALINGS | {"add", "float", "interpolate"}

_PASSES: Final = VIEWS | CLAMPS | NEGATIONS | {"log"}


class SoftmaxOverWrongDimension(Rule, code="LOS112", severity=Severity.ERROR):
    not_applicable = "no softmax was seen in a recorded step"
    explained_by = ("samples-mixed-in-batch",)

    def on_step_program(self, event: StepProgram) -> Findings:
        view = ProgramView(event)
        for operation in event.operations:
            if operation.name not in SOFTMAX or not operation.inputs:
                continue
            dim = normalized_over(view, operation)
            shape = view.values[operation.inputs[0]].shape
            if dim is None or operation.inputs[0] not in view.learned or shape[dim] < 2:
                continue
            classes = _class_dim(view, operation.outputs[0], operation.name == "log_softmax")
            if classes is not None:
                if classes != dim and shape[classes] > 1:
                    yield self._other_dimension(event, operation, dim, classes)
                continue
            other = compared_over(view, operation, dim)
            if other is not None:
                yield self._of_two(event, operation, dim, other)
                continue
            if operation.name == "softmax" and sums_over_other(view, operation, dim):
                yield self._of_attention(event, operation, dim)
                continue
            if (wrong := self._why(view, operation, dim)) and _gives_classes(view, operation.outputs[0]):
                yield self.finding(
                    event,
                    f"`{operation.name}(dim={dim})` of scores {list(shape)} normalizes over {wrong}.",
                    fix="Normalize over the dimension of the classes: `dim=1`.",
                    evidence={"shape": list(shape), "dim": dim, "classes_in_dim": 1},
                    place=operation.place,
                )

    def _of_attention(self, event: StepProgram, operation: Operation, dim: int) -> Finding:
        shape = event.values[operation.inputs[0]].shape
        last = len(shape) - 1
        return self.finding(
            event,
            f"`softmax(dim={dim})` of scores {list(shape)} normalizes over dimension {dim}, and the weighted sum runs "
            f"over dimension {last}: its weights do not add up to 1.",
            fix="Normalize over the positions that are summed over: `dim=-1`.",
            evidence={"shape": list(shape), "dim": dim, "summed_over": last},
            place=operation.place,
            severity=Severity.WARNING,
        )

    def _other_dimension(self, event: StepProgram, operation: Operation, dim: int, classes: int) -> Finding:
        shape = event.values[operation.inputs[0]].shape
        return self.finding(
            event,
            f"`{operation.name}(dim={dim})` of scores {list(shape)} normalizes over {shape[dim]} numbers that are not "
            f"the classes: the loss reads the {shape[classes]} numbers of dimension {classes} as classes.",
            fix=f"Normalize over the dimension of the classes: `dim={classes - len(shape)}`.",
            evidence={"shape": list(shape), "dim": dim, "classes_in_dim": classes},
            place=operation.place,
        )

    def _of_two(self, event: StepProgram, operation: Operation, dim: int, other: Operation) -> Finding:
        """A prediction and its target, which are normalized over different dimensions."""
        view = ProgramView(event)
        shape = event.values[operation.inputs[0]].shape
        meant = normalized_over(view, other) if other.name in SOFTMAX else view.dim_of(other)
        place, wrong, right = operation.place, dim, meant
        if meant is not None and (meant == view.sample_dim(operation.inputs[0]) or meant == 0 < dim):
            place, wrong, right = other.place, meant, dim
        what = f"`{operation.name}(dim={dim})` of scores {list(shape)}"
        return self.finding(
            event,
            f"{what} is compared with a target that sums to 1 over dimension {meant}: the two distributions are "
            "normalized over different dimensions and cannot agree.",
            fix=f"Normalize both over dimension {right}, not over dimension {wrong}.",
            evidence={"shape": list(shape), "dim": dim, "target_dim": meant},
            place=place,
        )

    def _why(self, view: ProgramView, operation: Operation, dim: int) -> str:
        scores = operation.inputs[0]
        shape = view.values[scores].shape
        if dim == 0 and len(shape) == 2 and 1 < shape[1] != shape[0] and view.sample_dim(scores) == 0:
            return f"the {shape[0]} samples of the batch, not over the {shape[1]} classes"
        if dim >= 2 and len(shape) >= 3 and _is_convolution(view, scores):
            side = "height" if dim == len(shape) - 2 else "width"
            return f"{side} ({shape[dim]} pixels), not over the {shape[1]} channels"
        return ""


def _class_dim(view: ProgramView, value: int, log: bool) -> int | None:
    """The dimension that a loss of log-probabilities reads as classes, followed from there back to the softmax."""
    waiting: list[tuple[int, Dims]] = [(value, tuple(range(len(view.values[value].shape))))]
    for _ in range(24):
        if not waiting:
            return None
        value, dims = waiting.pop(0)
        for reader in view.readers.get(value, []):
            if reader.inputs[0] != value or not reader.outputs:
                continue
            if reader.name == "nll_loss" and dims:
                return dims[1] if len(dims) > 1 else dims[0]
            if reader.name == "gather" and log and (picked := _gathered(view, reader)) is not None:
                return dims[picked]
            if (after := dims_after(view, reader, dims)) is not None:
                waiting.append((reader.outputs[0], after))
    return None


def _gathered(view: ProgramView, reader: Operation) -> int | None:
    """The dimension from which one number of each sample is picked."""
    dim = view.dim_of(reader)
    if dim is None or len(reader.inputs) < 2:
        return None
    values = view.values[reader.inputs[0]].shape
    index = view.values[reader.inputs[1]].shape
    rest = [size for number, size in enumerate(values) if number != dim]
    one_each = len(index) == len(values) and index[dim] == 1
    return dim if one_each and [size for number, size in enumerate(index) if number != dim] == rest else None


def _is_convolution(view: ProgramView, value: int) -> bool:
    """The output of a convolution, perhaps scaled."""
    for _ in range(6):
        maker = view.maker(value)
        if maker is None or not maker.inputs:
            return False
        if maker.name in CONVOLUTIONS:
            return view.values[maker.outputs[0]].shape[1] > 1
        if maker.name not in _KEEPS:
            return False
        value = maker.inputs[0]
    return False


def _gives_classes(view: ProgramView, value: int) -> bool:
    """Is it read as probabilities of classes in dimension 1?"""
    waiting, seen = [value], {value}
    for _ in range(24):
        if not waiting:
            return False
        value = waiting.pop(0)
        for reader in view.readers.get(value, []):
            if _reads_classes(view, reader, value) or _mixes(view, reader):
                return True
            alone = reader.name in ELEMENTWISE and len(reader.inputs) == 1
            if (reader.name in _PASSES or alone) and reader.inputs[0] == value:
                waiting += [output for output in reader.outputs if output not in seen]
                seen.update(reader.outputs)
    return False


def _mixes(view: ProgramView, reader: Operation) -> bool:
    """`logsumexp(log_weights + log_densities, dim=1)`"""
    if reader.name not in ADDITIONS or len(reader.inputs) != 2 or not view.learned.issuperset(reader.inputs):
        return False
    if len({view.values[index].shape for index in reader.inputs}) > 1:
        return False
    return any(r.name == "logsumexp" and view.dim_of(r) == 1 for r in view.readers.get(reader.outputs[0], []))


def _reads_classes(view: ProgramView, reader: Operation, value: int) -> bool:
    shape = view.values[value].shape
    if len(shape) < 2 or value not in reader.inputs:
        return False
    if reader.name in LABEL_LOSSES:
        return reader.inputs[0] == value
    if reader.name in ("argmax", "max", "topk", "gather"):
        position = 2 if reader.name == "topk" else 1
        return view.option(reader, "dim", position) in ("1", "-1" if len(shape) == 2 else "1")
    if reader.name == "__getitem__":
        return reader.inputs[0] == value and len(reader.inputs) == 3
    if reader.name in ELEMENTWISE or reader.name in LOSSES:
        return any(_is_one_hot(view, other, shape) for other in reader.inputs[:2] if other != value)
    return False


def _is_one_hot(view: ProgramView, value: int, shape: tuple[int, ...]) -> bool:
    """Zeros and ones, one in each sample or pixel, along dimension 1."""
    target = view.values[value]
    if target.shape != shape or value in view.learned or target.mean is None:
        return False
    return (target.smallest, target.largest) == (0, 1) and abs(target.mean * shape[1] - 1) < 1e-3
