"""A density of a mixture, `logsumexp(weights + log-densities)`, that a loss maximizes: do its weights sum to 1?

Found by what it means, not by its name: weights that are a layer's own output, and go nowhere else, make the loss fall
without end when they all grow.
"""

from typing import Final, Literal, NamedTuple

from trueloop.event import Operation
from trueloop.event.operation_names import CLAMPS, CONVOLUTIONS, SCALINGS, VIEWS
from trueloop.rules.program_distributions import normalized_over
from trueloop.rules.program_linear import parts_of
from trueloop.rules.program_view import ProgramView

__all__ = ["WrongWeights", "wrong_weights"]

_LAYERS: Final = CONVOLUTIONS | {"linear"}
_RISING: Final = VIEWS | CLAMPS | SCALINGS | {"tanh", "softplus", "relu", "elu", "leaky_relu", "hardtanh"}
"""Operations on one tensor whose result moves with it."""
_PICKS: Final = ("__getitem__", "chunk", "split", "unbind", "tensor_split")
_MOST: Final = 16  # operations to follow, or sums in sums


class WrongWeights(NamedTuple):
    value: int
    kind: Literal["logits", "probabilities"]
    sum: Operation  # the logsumexp


def wrong_weights(view: ProgramView, loss: int) -> WrongWeights | None:
    """Weights of a mixture that do not sum to 1 as logarithms; None where nothing is certain."""
    waiting = [m for part in parts_of(view, loss) if part.weight < 0 and (m := view.maker(part.value)) is not None]
    for _ in range(_MOST):
        if not waiting:
            break
        operation = waiting.pop(0)
        if operation.name != "logsumexp" or not operation.inputs:
            continue
        dim, table = view.dim_of(operation), operation.inputs[0]
        added = [p for p in parts_of(view, table) if p.value in view.learned and view.values[p.value].grad]
        if dim is None or len(added) < 2:
            continue
        for part in added if view.values[table].shape[dim] > 1 else ():
            maker = view.maker(part.value)
            if part.weight <= 0 or maker is None:
                continue
            waiting += [maker] if maker.name == "logsumexp" else []
            if view.values[part.value].shape != view.values[table].shape:
                continue
            if maker.name == "softmax" and normalized_over(view, maker) == dim:
                return WrongWeights(part.value, "probabilities", operation)
            if _is_free(view, part.value):
                return WrongWeights(part.value, "logits", operation)
    return None


def _is_free(view: ProgramView, value: int) -> bool:
    """It rises with the output of a layer that ran once, and the loss depends on that output in no other way."""
    picked = False
    for _ in range(_MOST):
        if not picked and len(_readers(view, value)) != 1:
            return False
        maker = view.maker(value)
        if maker is None or not maker.inputs:
            return False
        if maker.name in _LAYERS:
            return len(maker.inputs) > 1 and len(view.readers[maker.inputs[1]]) == 1
        if maker.name in _PICKS:
            alike = [o for o in _readers(view, maker.inputs[0]) if (o.name, o.options) == (maker.name, maker.options)]
            if len(alike) != 1 or any(o.name not in _PICKS for o in _readers(view, maker.inputs[0])):
                return False
            picked = True
        elif maker.name not in _RISING or len(maker.inputs) != 1:
            return False
        value = maker.inputs[0]
    return False


def _readers(view: ProgramView, value: int) -> list[Operation]:
    """The operations through which a value reaches a loss."""
    return [o for o in view.readers.get(value, []) if not view.on_loss_path.isdisjoint(o.outputs)]
