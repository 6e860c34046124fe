"""Does every step of a sequence reach the output, or only the first or the last one?

Tested once per model, on a copy, with a few samples: along each dimension of an input but the first, values are
exchanged between samples. A model that computes on all positions and whose output depends on one of them lost the
others on the way: a state that is created again in the loop, or the wrong end of an output.
"""

from time import perf_counter
from typing import Final, Literal

import torch
from torch import Tensor
from torch.autograd.function import BackwardCFunction

from trueloop.event import InputInfluenceTested
from trueloop.event.operation_names import ATTENTION, MATRIX_PRODUCTS, RECURRENT
from trueloop.measure.graph import nodes
from trueloop.measure.tensors import is_plain, is_readable
from trueloop.observers.observer import Observer
from trueloop.observers.run_objects import KnownModel, unwrapped
from trueloop.taps.calls import ModuleCall, tensors_in
from trueloop.taps.mixing import Comparison, MixingPoint, Recording
from trueloop.taps.replay_copy import CannotReplay, Inputs, ReplayCopy, mapped
from trueloop.usercode.ownership import class_place

__all__ = ["InputInfluenceObserver"]

SAMPLES: Final = 8
FEWEST: Final = 4
SHORTEST: Final = 3  # positions
LARGEST: Final = 2**20  # elements of an input
SLOWEST: Final = 0.5  # seconds of a forward
NODES: Final = 5000  # of the graph of an output
TENSORS: Final = 2  # inputs that are tested
_ENDS: Final[tuple[tuple[Literal["first", "last"], int], ...]] = (("last", -1), ("first", 0))
_LEARNED: Final = RECURRENT | ATTENTION | MATRIX_PRODUCTS | {
    "linear", "conv1d", "conv2d", "conv3d", "lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell", "embedding",
    "addmm", "einsum", "bilinear",
}  # fmt: skip
"""Operations that compute with weights, or with what was computed with them."""


class InputInfluenceObserver(Observer):
    emits = (InputInfluenceTested,)

    def prepare(self) -> None:
        self._done: set[int] = set()
        self._began = 0.0

    def module_call_started(self, call: ModuleCall) -> None:
        self._began = perf_counter()

    def module_call_ended(self, call: ModuleCall) -> None:
        known = self.objects.model(call.module)
        if known is None or known.number in self._done or not call.grad or not call.training or call.failed:
            return
        if self.bus.step < 1 or self.bus.in_step:
            return
        self._done.add(known.number)
        if call.compiled or perf_counter() - self._began > SLOWEST:
            return
        with torch.no_grad():
            try:
                self._test(call, known)
            except CannotReplay:
                return

    def _test(self, call: ModuleCall, known: KnownModel) -> None:
        given = list(tensors_in((call.args, dict(call.kwargs)), limit=16))
        size = given[0].shape[0] if given and given[0].dim() else 0
        batches = [t for t in given if _is_sequence(t) and t.shape[0] == size]
        outputs = [t for t in tensors_in(call.output, limit=4) if t.dim() and t.shape[0] == size]
        if size < FEWEST or not batches or not outputs or len(outputs) < len(list(tensors_in(call.output, limit=4))):
            return
        if any(isinstance(node, BackwardCFunction) for out in outputs for node in nodes(out.grad_fn, limit=NODES)):
            return  # a custom function may count its calls: it must not see another one
        few = min(size, SAMPLES)
        twin = ReplayCopy(unwrapped(call.module))
        plain = _with(call, None, None, size, few)
        first = _outputs(twin, plain, few)
        if [t.shape[1:] for t in first] != [t.shape[1:] for t in outputs]:
            return  # another output in eval mode
        readable = [t for t in batches if is_plain(t) and is_readable(t) and t.numel() <= LARGEST and t.is_cpu]
        for tensor in readable[:TENSORS]:
            for dim in range(1, min(tensor.dim(), 4)):
                if tensor.shape[dim] >= SHORTEST:
                    self._test_dim(call, known, twin, plain, first, tensor, dim, few)

    def _test_dim(self, call: ModuleCall, known: KnownModel, twin: ReplayCopy, plain: Inputs, first: list[Tensor],
                  tensor: Tensor, dim: int, few: int) -> None:  # fmt: skip
        size, length = tensor.shape[0], tensor.shape[dim]
        values = tensor.detach()[:few]

        def output(kept: list[int]) -> tuple[Inputs, bool]:
            """Other samples' values at all positions but these: did anything change?"""
            other = values.roll(1, 0)
            index = torch.tensor(kept, dtype=torch.long)
            other.index_copy_(dim, index, values.index_select(dim, index))
            inputs = _with(call, tensor, other, size, few)
            return inputs, _same(first, _outputs(twin, inputs, few))

        middle = length // 2
        about = (call.place, known.number, known.name, dim, length)
        if output([n for n in range(length) if n != middle])[1]:
            for end, kept in _ENDS:
                kept %= length
                inputs, same = output([kept])
                others_only = output([n for n in range(length) if n != kept])[1]
                if same and not others_only and bool((values != values.roll(1, 0)).any()):
                    point = _lost(twin, plain, inputs)
                    if point is not None:
                        place = point.place or class_place(type(unwrapped(call.module)))
                        self.emit(InputInfluenceTested, *about, end, point.layer, place)
                        return
        self.emit(InputInfluenceTested, *about, "", "", None)


def _is_sequence(tensor: Tensor) -> bool:
    """Positions with features, or ids; a row of a table has no steps."""
    return tensor.dim() > 2 or (tensor.dim() == 2 and tensor.dtype in (torch.int64, torch.int32))


def _with(call: ModuleCall, tensor: Tensor | None, other: Tensor | None, size: int, few: int) -> Inputs:
    def change(value: Tensor) -> Tensor:
        if value is tensor and other is not None:
            return other
        return (value[:few] if value.dim() and value.shape[0] == size else value).detach().clone()

    return mapped(call.args, change), mapped(dict(call.kwargs), change)


def _outputs(twin: ReplayCopy, inputs: Inputs, few: int) -> list[Tensor]:
    found = list(tensors_in(twin.run(inputs), limit=4))
    if any(t.dim() == 0 or t.shape[0] != few for t in found):
        raise CannotReplay("its outputs are not one for each sample")
    return found


def _same(one: list[Tensor], other: list[Tensor]) -> bool:
    return len(one) == len(other) and all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def _lost(twin: ReplayCopy, plain: Inputs, others: Inputs) -> MixingPoint | None:
    """The last operation with weights that still depended on the other positions; None: they were never computed on."""
    recording = Recording()
    twin.run(plain, recording)
    comparison = Comparison(recording)
    twin.run(others, comparison)
    steps = zip(recording.steps, comparison.masks, strict=False)
    found = [step.point for step, mask in steps if step.point.operation in _LEARNED and bool(mask.any())]
    return found[-1] if found else None
