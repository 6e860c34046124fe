"""What the loss is given in the first steps: shapes, kinds, ranges, whether rows are probabilities, and what stands
behind them.

Told for the losses of our tasks, and for a loss of torch's that a recipe names (`loss=nn.CrossEntropyLoss()`); what a
function of the user's own does inside is not seen from here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final, Literal, NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812 - as everybody writes it
from torch import Tensor, nn

from trueloop.engine.task import Binary, Language, Multiclass, Multilabel, OwnLoss, Regression, Task
from trueloop.engine.unprojected import Unprojected
from trueloop.event import LossComputed, Place

__all__ = ["ACTIVATIONS", "Activation", "loss_facts"]

LARGEST: Final = 1 << 20
"""Numbers of a tensor whose range is taken; of larger ones, evenly spaced ones."""
ROWS: Final = 256
"""Rows over the classes that are summed."""
TARGETS: Final = 1024
"""Targets that are read one by one."""
ROUNDING: Final = 1e-5
"""What the sum of a row of float32 probabilities may be off by; the precision of the tensor's own type comes on top."""

ACTIVATIONS: Final = (nn.Softmax, nn.Softmax2d, nn.LogSoftmax, nn.Sigmoid)
"""Layers that a loss on scores must not be given the output of."""

_MODULES: Final[dict[type[nn.Module], str]] = {
    nn.CrossEntropyLoss: "cross_entropy",
    nn.NLLLoss: "nll_loss",
    nn.KLDivLoss: "kl_div",
    nn.BCELoss: "binary_cross_entropy",
    nn.BCEWithLogitsLoss: "binary_cross_entropy_with_logits",
    nn.MSELoss: "mse_loss",
    nn.L1Loss: "l1_loss",
    nn.SmoothL1Loss: "smooth_l1_loss",
    nn.HuberLoss: "huber_loss",
}
_OVER_CLASSES: Final = ("cross_entropy", "nll_loss", "kl_div")
_VIEWS: Final = (
    "View", "UnsafeView", "Reshape", "ReshapeAlias", "Squeeze", "Unsqueeze", "T", "Transpose", "Permute", "Select", "Slice", "Alias",
    "ToCopy", "Clone", "Expand",
)  # fmt: skip
"""Operations that hand values on unchanged; a trailing BackwardN is cut off before comparing."""
_FAR: Final = 12
"""Nodes one goes back through views."""

Rows = Literal["probabilities", "log-probabilities", "scores", "unknown"]


class Activation(NamedTuple):
    """A layer that makes probabilities of scores, and what it left in the graph."""

    module: str
    place: Place | None
    node: Any


class _Call(NamedTuple):
    """A call of a function of torch.nn.functional."""

    function: str
    reduction: str
    scores: Tensor
    target: Tensor
    ignore: int | None = None


@torch.no_grad()
def loss_facts(
    task: Task, output: Any, targets: Any, step: int, call: int, activations: Sequence[Activation] = ()
) -> LossComputed | None:
    """One read from the device. None where the loss is not one we know. `activations`: softmax layers and the like that
    ran."""
    if isinstance(output, Unprojected) and isinstance(task, (Multiclass, Language)):
        return _of_some_rows(task, output, targets, step, call)
    made = _call_of(task, output, targets)
    if made is None or not (made.scores.numel() and made.target.numel()):
        return None
    numbers = _Numbers(made)
    nodes = list(_behind(output))
    last = next((each for each in activations if any(node is each.node for node, _ in nodes)), None)
    return LossComputed(
        step=step,
        place=None,
        function=made.function,
        call=call,
        grad=output.requires_grad,
        reduction=made.reduction,
        input_shape=tuple(made.scores.shape),
        target_shape=tuple(made.target.shape),
        input_dtype=str(made.scores.dtype).removeprefix("torch."),
        target_dtype=str(made.target.dtype).removeprefix("torch."),
        input_range=numbers.input_range,
        target_range=numbers.target_range,
        rows=numbers.rows,
        preceding=tuple(name for _, name in nodes),
        preceding_place=None if last is None else last.place,
        preceding_module="" if last is None else last.module,
        target_integral=numbers.integral,
        target_distinct=numbers.distinct,
        target_rows_sum_to_one=numbers.target_rows_sum_to_one,
        target_used_as_class=False,
        ignore_index=made.ignore,
    )


def _of_some_rows(task: Task, output: Unprojected, targets: Tensor, step: int, call: int) -> LossComputed | None:
    """Of scores that are never made all at once, those of some rows are. Behind them stands the product that makes
    them, no softmax."""
    whole, wanted = output.flatten(0, -2), targets.flatten()
    apart = max(1, -(-len(wanted) // ROWS))
    told = loss_facts(task, Unprojected(whole.hidden[::apart], whole.weight).scores(), wanted[::apart], step, call)
    if told is None:
        return None
    return replace(
        told, grad=output.hidden.requires_grad, input_shape=tuple(whole.shape), target_shape=tuple(wanted.shape)
    )


def _call_of(task: Task, output: Any, targets: Any) -> _Call | None:
    """What the task hands to torch's loss function."""
    if not isinstance(output, Tensor) or not isinstance(targets, Tensor):
        return None
    match task:
        case Multiclass():
            return _Call("cross_entropy", "sum", output, targets, task.ignore)
        case Language():
            return _Call("cross_entropy", "sum", output.flatten(0, -2), targets.flatten(), task.inner.ignore)
        case Binary():
            return _Call("binary_cross_entropy_with_logits", "sum", output.flatten(), targets.flatten())
        case Multilabel():
            return _Call("binary_cross_entropy_with_logits", "sum", output, targets)
        case Regression():
            fits = output.numel() == targets.numel()  # [N, 1] against [N]: the task brings them to one shape
            return _Call("mse_loss", "sum", output.reshape(targets.shape), targets) if fits else None
        case OwnLoss():
            return _torchs_own(task.loss, output, targets)
    return None


def _torchs_own(loss: Any, output: Tensor, targets: Tensor) -> _Call | None:
    """A loss of torch's, as a module or as a function."""
    function = _MODULES.get(type(loss), "")
    name = getattr(loss, "__name__", "")
    if not function and name in _MODULES.values() and getattr(F, name) is loss:
        function = name
    if not function:
        return None
    ignored = getattr(loss, "ignore_index", -100) if function in ("cross_entropy", "nll_loss") else None
    return _Call(function, getattr(loss, "reduction", "mean"), output, targets, ignored)


# -- numbers --


class _Numbers:
    """All value facts of one call, from one read."""

    def __init__(self, call: _Call) -> None:
        scores, target = call.scores.detach(), call.target.detach()
        rows = _rows(scores, call.function)
        alike = rows is not None and scores.shape == target.shape and target.is_floating_point()
        target_rows = _rows(target, call.function) if alike else None
        parts = [
            torch.stack(torch.aminmax(_thinned(scores, LARGEST).float())),
            _facts_of_rows(rows, scores),
            _facts_of_rows(target_rows, scores),
            _thinned(target, TARGETS).float().to(scores.device),
        ]
        values: list[float] = torch.cat(parts).tolist()
        self.input_range = None if values[0] != values[0] else (values[0], values[1])
        self.rows: Rows = (
            "unknown" if rows is None or rows.shape[1] < 2 else _kind_of_rows(values[2:5], _tolerance(rows, scores))
        )
        self.target_rows_sum_to_one = None if target_rows is None else values[6] <= _tolerance(target_rows, target)
        targets = [value for value in values[8:] if value != call.ignore]
        self.integral = bool(targets) and all(value.is_integer() for value in targets)
        self.distinct = len(set(targets))
        self.target_range = (min(targets), max(targets)) if targets else None


def _thinned(tensor: Tensor, limit: int) -> Tensor:
    """At most so many of its numbers, evenly spaced."""
    flat = tensor.reshape(-1)
    return flat[:: -(-flat.numel() // limit)] if flat.numel() > limit else flat


def _rows(tensor: Tensor, function: str) -> Tensor | None:
    """Some rows over the class dimension, as a matrix; None where there are no classes."""
    if function not in _OVER_CLASSES or not tensor.dim():
        return None
    classes = tensor.dim() - 1 if function == "kl_div" or tensor.dim() == 1 else 1
    rows = tensor.movedim(classes, -1).flatten(0, -2) if tensor.dim() > 1 else tensor.unsqueeze(0)
    return rows[:: -(-len(rows) // ROWS)].float()


def _facts_of_rows(rows: Tensor | None, like: Tensor) -> Tensor:
    """Smallest value; how far the sums are from one, rows of zeros (padding) left out; how far logsumexp is from
    zero."""
    if rows is None:
        return torch.zeros(3, device=like.device)
    sums = rows.sum(1)
    off = torch.where(rows.any(1), (sums - 1).abs(), torch.zeros_like(sums))
    return torch.stack([rows.min(), off.max(), rows.logsumexp(1).abs().max()])


def _tolerance(rows: Tensor, of: Tensor) -> float:
    """How far from one the sum of a row of probabilities may lie: each is rounded to its type, the small ones to its
    smallest number."""
    kind = torch.finfo(of.dtype if of.is_floating_point() else torch.float32)
    return ROUNDING + 2 * kind.eps + rows.shape[1] * kind.smallest_normal * kind.eps


def _kind_of_rows(facts: list[float], tolerance: float) -> Rows:
    smallest, off_one, off_zero = facts
    if smallest != smallest:
        return "unknown"
    if smallest >= 0 and off_one <= tolerance:
        return "probabilities"
    return "log-probabilities" if off_zero <= 10 * tolerance else "scores"


# -- what stands behind --


def _behind(output: Tensor) -> Iterator[tuple[Any, str]]:
    """The operations behind the model's output, nearest first, through those that only hand values on; then the first
    that does not."""
    node: Any = output.grad_fn
    for _ in range(_FAR):
        if node is None:
            return
        name = str(node.name())
        yield node, name
        following = [inner for inner, _ in node.next_functions if inner is not None]
        if name.rstrip("0123456789").removesuffix("Backward") not in _VIEWS or not following:
            return
        node = following[0]
