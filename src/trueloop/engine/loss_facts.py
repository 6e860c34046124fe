"""What the loss is given in the first steps: shapes, kinds, ranges, whether rows are probabilities, and what stands
behind them.

Told for the losses of our tasks, and for a loss of torch's that a recipe names (`loss=nn.CrossEntropyLoss()`); what a
function of the user's own does inside is not seen from here.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812 - as everybody writes it
from torch import Tensor, nn

from trueloop.engine.task import Binary, Language, Multiclass, Multilabel, OwnLoss, Regression, Task
from trueloop.engine.unprojected import Unprojected
from trueloop.event import LossComputed, Place
from trueloop.measure.loss import LossInputs, loss_computed

__all__ = ["ACTIVATIONS", "Activation", "loss_facts"]

SAMPLES: Final = 256  # Rows of scores to compute where they are never computed all at once
# Layers whose output a loss on scores must not be given
ACTIVATIONS: Final = (nn.Softmax, nn.Softmax2d, nn.LogSoftmax, nn.Sigmoid)

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


class Activation(NamedTuple):
    """A layer that makes probabilities of scores, and what it left in the graph."""

    module: str
    place: Place | None
    node: Any


@torch.no_grad()
def loss_facts(
    task: Task, output: Any, targets: Any, step: int, call: int, activations: Sequence[Activation] = ()
) -> LossComputed | None:
    """One read from the device. None: not a loss we know. `activations`: softmax layers and the like that ran."""
    if isinstance(output, Unprojected) and isinstance(task, (Multiclass, Language)):
        return _of_some_rows(task, output, targets, step, call)
    call_inputs = _call_of(task, output, targets)
    if call_inputs is None:
        return None

    def activation_of(node: Any) -> tuple[Place | None, str] | None:
        return next(((each.place, each.module) for each in activations if each.node is node), None)

    grad = output.requires_grad
    return loss_computed(call_inputs, activation_of, step=step, place=None, call=call, grad=grad, made_by=output)


def _of_some_rows(task: Task, output: Unprojected, targets: Tensor, step: int, call: int) -> LossComputed | None:
    """Some rows of scores that are never made all at once. Behind them stands the product that makes them."""
    whole, wanted = output.flatten(0, -2), targets.flatten()
    apart = max(1, -(-len(wanted) // SAMPLES))
    told = loss_facts(task, Unprojected(whole.hidden[::apart], whole.weight).scores(), wanted[::apart], step, call)
    if told is None:
        return None
    shape, target_shape = tuple(whole.shape), tuple(wanted.shape)
    return replace(told, grad=output.hidden.requires_grad, input_shape=shape, target_shape=target_shape)


def _call_of(task: Task, output: Any, targets: Any) -> LossInputs | None:
    """What the task hands to torch's loss function."""
    if not isinstance(output, Tensor) or not isinstance(targets, Tensor):
        return None
    match task:
        case Multiclass():
            return LossInputs("cross_entropy", output, targets, "sum", task.ignore)
        case Language():
            return LossInputs("cross_entropy", output.flatten(0, -2), targets.flatten(), "sum", task.inner.ignore)
        case Binary():
            return LossInputs("binary_cross_entropy_with_logits", output.flatten(), targets.flatten(), "sum")
        case Multilabel():
            return LossInputs("binary_cross_entropy_with_logits", output, targets, "sum")
        case Regression():
            fits = output.numel() == targets.numel()  # [N, 1] against [N]: the task brings them to one shape
            return LossInputs("mse_loss", output.reshape(targets.shape), targets, "sum") if fits else None
        case OwnLoss():
            return _torchs_own(task.function, output, targets)
    return None


def _torchs_own(loss: Any, output: Tensor, targets: Tensor) -> LossInputs | None:
    """A loss of torch's, as a module or as a function."""
    function = _MODULES.get(type(loss), "")
    name = getattr(loss, "__name__", "")
    if not function and name in _MODULES.values() and getattr(F, name) is loss:
        function = name
    if not function:
        return None
    ignored = getattr(loss, "ignore_index", -100) if function in ("cross_entropy", "nll_loss") else None
    return LossInputs(function, output, targets, getattr(loss, "reduction", "mean"), ignored)
