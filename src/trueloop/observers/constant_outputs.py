"""Do the outputs of a model differ between samples? Compared on a few calls, for outputs that go into a loss.

The comparisons become ever rarer, two per doubling; every other call costs one count.
"""

import weakref
from collections import Counter
from typing import Any, Final

import torch
from torch import Tensor

from trueloop.event import OutputsCompared
from trueloop.measure.graph import node_name, nodes, through_views
from trueloop.measure.tensors import is_readable, on_host, same_memory
from trueloop.observers.observer import Observer
from trueloop.observers.run_objects import KnownModel
from trueloop.taps.calls import BackwardCall, LossCall, ModuleCall, tensors_in
from trueloop.torch_private.autograd import saved

__all__ = ["ConstantOutputsObserver"]

FEWEST: Final = 8  # fewest samples to compare
OUTPUTS: Final = 4  # outputs of one call: the first few tensors carry the loss
NODES: Final = 2000  # nodes of a loss's graph to search for the model's outputs: they are near its root

LARGEST: Final = 2**22  # elements of an output that are compared, evenly spaced

_ENDS: Final = ("SigmoidBackward", "TanhBackward", "HardsigmoidBackward", "HardtanhBackward")
"""Operations that map different large scores to one number."""


class _Look:
    """One call of a model, until its loss is known. Weak references only."""

    __slots__ = ("batch", "different", "known", "outputs", "place", "training")

    def __init__(self, call: ModuleCall, known: KnownModel, inputs: Tensor, outputs: list[Tensor]) -> None:
        self.known, self.place, self.training = known, call.place, call.training
        self.batch = inputs.shape[0]
        self.different = int((inputs != inputs[:1]).reshape(self.batch, -1).any(1).sum())
        self.outputs = [weakref.ref(tensor) for tensor in outputs]

    def living(self) -> list[Tensor]:
        """All of them, or none: a constant output beside a freed one shows nothing."""
        found = [tensor for ref in self.outputs if (tensor := ref()) is not None]
        return found if len(found) == len(self.outputs) else []


class ConstantOutputsObserver(Observer):
    emits = (OutputsCompared,)

    def prepare(self) -> None:
        self._calls: Counter[tuple[int, int]] = Counter()  # by model and identity of the place
        self._look: _Look | None = None

    def module_call_ended(self, call: ModuleCall) -> None:
        known = self.objects.model(call.module)
        if known is None:
            return
        self._look = None  # an output that goes into another model is not the input of a loss
        key = (known.number, id(call.place))
        number = self._calls[key] = self._calls[key] + 1
        if number & (number - 1) and (number % 3 or (number // 3) & (number // 3 - 1)):
            return  # neither 1, 2, 4, 8 ... nor 3, 6, 12, 24 ...
        inputs = next((given for given in _inputs(call) if given.dim()), None)
        if inputs is None or not is_readable(inputs) or inputs.shape[0] < FEWEST or call.failed:
            return
        first = list(tensors_in(call.output))[:OUTPUTS]
        outputs = [out for out in first if out.dim() and out.shape[0] == inputs.shape[0]]
        if outputs and all(is_readable(out) and out.dtype in (torch.float32, torch.float64) for out in outputs):
            with torch.no_grad():
                self._look = _Look(call, known, on_host(inputs), outputs)

    def loss_called(self, loss: LossCall) -> None:
        look = self._look
        if look is None or self.bus.call is not None:
            return
        outputs = look.living()
        if any(same_memory(out, loss.input) for out in outputs):
            self._compare(look, outputs)

    def backward_started(self, call: BackwardCall) -> None:
        look = self._look
        if look is None:
            return
        outputs = look.living()
        made = {out.grad_fn for out in outputs if out.grad_fn is not None}
        roots = [tensor.grad_fn for tensor in call.tensors if tensor.grad_fn is not None]
        if made and any(node in made for root in roots for node in nodes(root, limit=NODES)):
            self._compare(look, outputs)

    def _compare(self, look: _Look, outputs: list[Tensor]) -> None:
        self._look = None
        with torch.no_grad():
            facts = [_spread_and_scale(on_host(out)) for out in outputs if not _is_constant_by_design(out)]
        if not facts:
            return
        spread, scale = max(facts, key=lambda pair: pair[0] / (pair[1] or 1.0))
        known, samples = look.known, (look.batch, look.different)
        self.emit(OutputsCompared, look.place, known.number, known.name, look.training, *samples, spread, scale)


def _inputs(call: ModuleCall) -> list[Tensor]:
    named = {key: v for key, v in call.kwargs.items() if not any(word in key for word in ("label", "target", "mask"))}
    return list(tensors_in((call.args, named), limit=8))


def _spread_and_scale(output: Tensor) -> tuple[float, float]:
    rows = output.reshape(output.shape[0], -1)
    rows = rows[:, :: -(-rows.numel() // LARGEST)]
    found: list[float] = torch.stack([(rows.amax(0) - rows.amin(0)).max(), rows.abs().max()]).tolist()
    return found[0], found[1]


def _is_constant_by_design(output: Tensor) -> bool:
    """A row expanded over the batch (a learned deviation), or scores so large that a sigmoid or softmax rounds them."""
    if output.stride(0) == 0:
        return True
    behind = list(through_views(output))
    if any(node_name(node).startswith("Expand") for node in behind):
        return True
    return (not behind or _squashes(behind[-1], output.shape)) and _is_saturated(output.detach())


def _squashes(node: Any, shape: torch.Size) -> bool:
    """Does the operation map different scores to one number? A softmax over a single score does so by mistake."""
    name = node_name(node).rstrip("0123456789")
    if name == "SoftmaxBackward":
        dimension = (int(saved(node, "dim")) + 2**63) % 2**64 - 2**63  # -1 is kept as 2**64 - 1
        return shape[dimension] > 1
    return name in _ENDS


def _is_saturated(values: Tensor) -> bool:
    return bool(((values == 0) | (values.abs() == 1)).all())
