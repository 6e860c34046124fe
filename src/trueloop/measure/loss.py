"""The arguments of a loss call: shapes, dtypes, ranges, whether rows are probabilities, and the operations behind them.

All values of one call are read from the device at once.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final, Literal, NamedTuple

import torch
from torch import Tensor

from trueloop.event import LossComputed, Place
from trueloop.event.operation_names import CLAMP_NODES, CLASS_LOSSES
from trueloop.measure.graph import inputs_of, node_name, through_views
from trueloop.measure.tensors import evenly_spaced, is_readable, on_host

__all__ = ["TARGETS", "Activation", "LossInputs", "loss_computed"]

LARGEST: Final = 1 << 20  # Elements of a tensor whose range is taken; of a larger one, evenly spaced elements
SAMPLES: Final = 32  # Samples whose rows are summed, evenly spaced over the batch
POSITIONS: Final = 8  # Positions per further dimension (pixels, tokens) whose rows are summed
TARGETS: Final = 1024  # Targets that are read one by one
ROUNDING: Final = 1e-5  # Allowed error of a row sum of float32 probabilities; the precision of the dtype comes on top
FAR: Final = 6  # Nodes to search for the softmax of inputs whose values are probabilities (`softmax(x) + 1e-8`)

_OVER_CLASSES: Final = CLASS_LOSSES | {"kl_div"}

Rows = Literal["probabilities", "log-probabilities", "scores", "unknown"]
Activation = tuple[Place | None, str]  # The line and the name of a softmax or sigmoid


class LossInputs(NamedTuple):
    """One call of a loss function of torch."""

    function: str
    scores: Tensor
    target: Tensor
    reduction: str
    ignore: Any = None
    log_target: bool = False


@torch.no_grad()
def loss_computed(
    inputs: LossInputs,
    activation_of: Callable[[Any], Activation | None],
    *,
    step: int,
    place: Place | None,
    call: int,
    grad: bool,
    made_by: Tensor | None = None,
) -> LossComputed | None:
    """None where the tensors cannot be read. `activation_of`: the activation that an autograd node belongs to.
    `made_by`: the tensor whose graph to read, where the scores are a reshaped view without one."""
    if not is_readable(inputs.scores) or not is_readable(inputs.target):
        return None
    values = _Values(inputs)
    made_by = inputs.scores if made_by is None else made_by
    behind, activation = _behind(made_by, activation_of, far=values.rows == "probabilities")
    return LossComputed(
        step=step,
        place=place,
        function=inputs.function,
        call=call,
        grad=grad,
        reduction=inputs.reduction,
        input_shape=tuple(inputs.scores.shape),
        target_shape=tuple(inputs.target.shape),
        input_dtype=str(inputs.scores.dtype).removeprefix("torch."),
        target_dtype=str(inputs.target.dtype).removeprefix("torch."),
        input_range=values.input_range,
        target_range=values.target_range,
        rows=values.rows,
        preceding=behind,
        preceding_place=activation[0],
        preceding_module=activation[1],
        target_integral=values.integral,
        target_distinct=values.distinct,
        target_rows_sum_to_one=values.target_rows_sum_to_one,
        target_used_as_class=False,
        ignore_index=inputs.ignore,
        log_target=inputs.log_target,
    )


# -- values --


class _Values:
    """All facts that need values, from one read."""

    def __init__(self, inputs: LossInputs) -> None:
        scores, target = inputs.scores.detach(), inputs.target.detach()
        rows = _rows(scores, inputs.function)
        same_kind = rows is not None and scores.shape == target.shape and target.is_floating_point()
        target_rows = _rows(target, inputs.function) if same_kind else None
        parts = [
            torch.stack(torch.aminmax(on_host(evenly_spaced(scores.reshape(-1), LARGEST)).float())),
            _facts_of_rows(rows),
            _facts_of_rows(target_rows),
            on_host(evenly_spaced(target.reshape(-1), TARGETS)).float(),
        ]
        values: list[float] = torch.cat(parts).tolist()
        self.input_range = None if values[0] != values[0] else (values[0], values[1])
        self.rows: Rows = "unknown"
        if rows is not None and rows.shape[1] > 1:
            self.rows = _kind_of_rows(values[2:5], _tolerance(rows, scores))
        self.target_rows_sum_to_one = None if target_rows is None else values[6] <= _tolerance(target_rows, target)
        targets = [value for value in values[8:] if value != inputs.ignore]
        self.integral = bool(targets) and all(value.is_integer() for value in targets)
        self.distinct = len(set(targets))
        self.target_range = (min(targets), max(targets)) if targets else None


def _rows(tensor: Tensor, function: str) -> Tensor | None:
    """Some rows over the class dimension, as a matrix; None where there are no classes."""
    if function not in _OVER_CLASSES or not tensor.dim():
        return None
    classes = tensor.dim() - 1 if function == "kl_div" or tensor.dim() == 1 else 1
    for dimension in range(tensor.dim()):
        if dimension != classes:
            tensor = evenly_spaced(tensor, POSITIONS if dimension else SAMPLES, dimension)
    return on_host(tensor.movedim(classes, -1).reshape(-1, tensor.shape[classes])).float()


def _facts_of_rows(rows: Tensor | None) -> Tensor:
    """Smallest value; largest distance of a sum from one, without rows of zeros (padding); of a logsumexp from zero."""
    if rows is None:
        return torch.zeros(3)
    sums = rows.sum(1)
    off = torch.where(rows.any(1), (sums - 1).abs(), torch.zeros_like(sums))
    return torch.stack([rows.min(), off.max(), rows.logsumexp(1).abs().max()])


def _tolerance(rows: Tensor, of: Tensor) -> float:
    """Allowed distance of the sum of probabilities from one: each is rounded to its dtype, the smallest to zero."""
    kind = torch.finfo(of.dtype if of.is_floating_point() else torch.float32)
    return ROUNDING + 2 * kind.eps + rows.shape[1] * kind.smallest_normal * kind.eps


def _kind_of_rows(facts: list[float], tolerance: float) -> Rows:
    smallest, off_one, off_zero = facts
    if smallest != smallest:
        return "unknown"
    if smallest >= 0 and off_one <= tolerance:
        return "probabilities"
    return "log-probabilities" if off_zero <= 10 * tolerance else "scores"


# -- the operations behind --


def _behind(
    scores: Tensor, activation_of: Callable[[Any], Activation | None], *, far: bool
) -> tuple[tuple[str, ...], Activation]:
    """The names of the nodes directly behind the scores, the input of a clamp included; the first activation there."""
    near = list(through_views(scores))
    if near and node_name(near[-1]).startswith(CLAMP_NODES):
        near += [node for following in inputs_of(near[-1])[:1] for node in through_views(following)]
    found = next((activation for node in near if (activation := activation_of(node)) is not None), None)
    if found is None and far and near:
        softmaxes = (activation_of(node) for node in _further(near[-1]) if "Softmax" in node_name(node))
        found = next((activation for activation in softmaxes if activation is not None), None)
    return tuple(map(node_name, near)), found or (None, "")


def _further(node: Any) -> Iterator[Any]:
    for _ in range(FAR):
        behind = inputs_of(node)
        if not behind:
            return
        node = behind[0]
        yield node
