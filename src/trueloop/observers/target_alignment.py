"""Samples beside their dense targets, in training and in evaluation, as small maps: do they lie on one another?"""

import weakref
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import torch
from torch import Tensor

from trueloop.event import Alignment, MapOrder, Place, TargetsAligned
from trueloop.event.operation_names import DIFFERENCES, EQUALITIES, LOGICAL, PRODUCTS
from trueloop.measure.alignment import alignment, explained, searched, small_input, small_target
from trueloop.measure.map_orders import map_order, orders_of_rows, small_output
from trueloop.measure.tensors import evenly_spaced, is_plain, is_readable
from trueloop.observers.observer import Observer
from trueloop.taps.calls import LossCall, ModuleCall, OperationCall, RunEnd, tensors_in
from trueloop.torch_private.autograd import saved

__all__ = ["TargetAlignmentObserver"]

Phase = Literal["training", "evaluation"]

ROWS: Final = {"training": 16, "evaluation": 64}  # of a call: the training has many, an evaluation may have one
MOST_ROWS: Final = 192  # of a phase
CALLS: Final = 48  # of a phase, without those whose target has no such dimensions
ON_DEVICE: Final = 6
FEW: Final = 0.2  # of the training rows that fit as they are
MOST: Final = 0.6  # of the evaluated ones
_COMPARES: Final = EQUALITIES | DIFFERENCES | PRODUCTS | LOGICAL | {
    "cross_entropy", "binary_cross_entropy_with_logits", "mse_loss", "l1_loss",
}  # fmt: skip
_MOVES: Final = ("flip", "fliplr", "flipud", "rot90", "roll", "grid_sample", "index_select", "gather")
_MOVED: Final = ("Flip", "Roll", "GridSampler", "Rot90", "IndexSelect", "Gather")  # the same in a graph
_DEEP: Final = 8  # nodes of a graph behind a prediction


@dataclass(slots=True)
class _Maps:
    place: Place | None
    inputs: list[Tensor] = field(default_factory=list)
    targets: list[Tensor] = field(default_factory=list)
    rows: int = 0


@dataclass(slots=True)
class _Waiting:
    """The latest call, until its target is known."""

    model: int
    phase: Phase
    place: Place | None
    small: Tensor
    shape: tuple[int, ...]
    answer: Tensor | None = None  # the output as a small map


@dataclass(slots=True)
class _Answers:
    """The latest outputs beside their targets."""

    outputs: Tensor
    targets: Tensor
    step: int


class TargetAlignmentObserver(Observer):
    emits = (TargetsAligned,)

    def prepare(self) -> None:
        self._maps: dict[tuple[int, Phase], _Maps] = {}
        self._calls: Counter[tuple[int, Phase]] = Counter()
        self._waiting: _Waiting | None = None
        self._answers: dict[int, _Answers] = {}  # of a model in training
        self._derived: dict[int, weakref.ref[Tensor]] = {}
        """The outputs of the latest call and what was computed from them in place, in recorded steps."""

    def module_call_started(self, call: ModuleCall) -> None:
        self._waiting = None
        known = self.objects.model(call.module)
        if known is None or call.recalibration:
            return
        phase: Phase = "training" if call.grad and call.training else "evaluation"
        key = (known.number, phase)
        self._calls[key] += 1
        if self._calls[key] > CALLS and not self.bus.recording:
            return
        given = [t for t in (*tensors_in(call.args), *tensors_in(call.kwargs)) if is_plain(t) and t.ndim >= 3]
        if not given or (key in self._maps and self._maps[key].rows >= MOST_ROWS and not self.bus.recording):
            return
        first = given[0]
        if self._calls[key] > ON_DEVICE and not first.is_cpu and not self.bus.recording:
            return
        if not is_readable(first) or first.requires_grad or not first.is_floating_point() or first.ndim > 4:
            return
        small = small_input(evenly_spaced(first, ROWS[phase]))
        if small is not None:
            self._waiting = _Waiting(known.number, phase, call.place, small.cpu(), tuple(first.shape))

    def module_call_ended(self, call: ModuleCall) -> None:
        if self._waiting is not None and not call.failed and self.objects.model(call.module) is not None:
            outputs = list(tensors_in(call.output))
            self._derived = {id(t): weakref.ref(t) for t in outputs}
            self._waiting.answer = self._answer(self._waiting, outputs[0]) if len(outputs) == 1 else None

    def _answer(self, waiting: _Waiting, output: Tensor) -> Tensor | None:
        usable = is_plain(output) and is_readable(output) and output.is_floating_point() and output.ndim > 1
        if not usable or output.shape[0] != waiting.shape[0]:
            return None
        small = small_output(
            evenly_spaced(output, ROWS[waiting.phase]), len(waiting.shape) - 2, waiting.small.shape[-1]
        )
        return None if small is None else small.cpu()

    def loss_called(self, loss: LossCall) -> None:
        if self._waiting is None:
            return
        outputs = [known() for known in self._derived.values()]
        ends = [output.grad_fn for output in outputs if output is not None and output.grad_fn is not None]
        if not _is_moved(loss.input.grad_fn, ends):
            self._keep(loss.target)

    def operation_ended(self, call: OperationCall) -> None:
        if self._waiting is None or self.bus.call is not None:
            return
        given = [arg for arg in call.args if isinstance(arg, Tensor)]
        derived = [self._is_derived(tensor) for tensor in given]
        if call.name in _COMPARES and derived[:2].count(True) == 1 == derived[:2].count(False):
            other = given[derived.index(False)]
            if other.numel() > 1:
                self._keep(other)
        views = isinstance(call.output, Tensor) and bool(given) and _axes_exchanged(given[0], call.output)
        if any(derived) and not views and call.name not in _MOVES and len(self._derived) < 256:
            self._derived |= {id(tensor): weakref.ref(tensor) for tensor in tensors_in(call.output)}

    def _is_derived(self, tensor: Tensor) -> bool:
        known = self._derived.get(id(tensor))
        return known is not None and known() is tensor

    def _keep(self, target: Tensor) -> None:
        waiting = self._waiting
        if waiting is None or not is_plain(target) or not is_readable(target) or target.requires_grad:
            return
        small = None
        if target.ndim and target.shape[0] == waiting.shape[0]:
            rows = evenly_spaced(target, ROWS[waiting.phase])
            shape = (len(rows), *waiting.shape[1:])
            small = small_target(rows, shape, waiting.small.shape[-1])
        if small is None:
            return
        maps = self._maps.setdefault((waiting.model, waiting.phase), _Maps(waiting.place))
        small = small.cpu()
        if waiting.answer is not None and waiting.phase == "training":
            self._answers[waiting.model] = _Answers(waiting.answer, small, self.bus.step)
        same = not maps.inputs or maps.inputs[0].shape[1:] == waiting.small.shape[1:]
        if maps.rows < MOST_ROWS and same:
            maps.inputs.append(waiting.small)
            maps.targets.append(small)
            maps.rows += len(small)
        self._waiting = None

    @torch.no_grad()
    def run_ended(self, end: RunEnd) -> None:
        for (model, phase), maps in self._maps.items():
            if phase == "training":
                others = self._maps.get((model, "evaluation"))
                trained, evaluated = _aligned(maps), _aligned(others)
                if trained is None:
                    continue
                few = evaluated is not None and trained.aligned < FEW * trained.rows
                if few and evaluated is not None and evaluated.aligned > MOST * evaluated.rows:
                    trained = searched(torch.cat(maps.inputs), torch.cat(maps.targets), trained)
                name = self.objects.models[model].name
                answers = self._answers.get(model)
                answered = None if answers is None else explained(answers.outputs, answers.targets)
                predicted = None if others is None else orders_of_rows(_joined(others), _joined(maps))
                self.emit(TargetsAligned, maps.place, model, name, trained, evaluated, _order(maps), _order(others),
                          answered, 0 if answers is None else answers.step, *(predicted or ()))  # fmt: skip


def _joined(maps: _Maps) -> tuple[Tensor, Tensor]:
    return torch.cat(maps.inputs), torch.cat(maps.targets)


def _aligned(maps: _Maps | None) -> Alignment | None:
    return None if maps is None else alignment(torch.cat(maps.inputs), torch.cat(maps.targets))


def _order(maps: _Maps | None) -> MapOrder | None:
    return None if maps is None else map_order(torch.cat(maps.inputs), torch.cat(maps.targets))


def _is_moved(node: Any, ends: list[Any]) -> bool:
    """The prediction was flipped or moved on its way to the loss, or its axes were exchanged after the model."""
    inside = False
    for _ in range(_DEEP):
        if node is None:
            return False
        inside = inside or any(node is end for end in ends)
        if node.name().startswith(_MOVED) or (not inside and _exchanges_axes(node)):
            return True
        following = [next_node for next_node, _ in node.next_functions if next_node is not None]
        node = following[0] if following else None
    return False


def _exchanges_axes(node: Any) -> bool:
    """Of an operation in a graph: rows become columns. Channels that only move from one end to the other do not."""
    if node.name().startswith("Transpose"):
        return bool(saved(node, "dim0") != saved(node, "dim1"))
    return node.name().startswith("Permute") and _is_odd(tuple(saved(node, "dims", ())))


def _axes_exchanged(before: Tensor, after: Tensor) -> bool:
    """The same of a view."""
    strides, others = before.stride(), after.stride()
    if strides == others or len(set(strides)) < len(strides) or set(strides) != set(others):
        return False
    return before.data_ptr() == after.data_ptr() and _is_odd(tuple(strides.index(stride) for stride in others))


def _is_odd(order: tuple[int, ...]) -> bool:
    """Whether an order is made by an odd number of exchanges."""
    order = tuple(place % len(order) for place in order)
    return sum(a > b for index, a in enumerate(order) for b in order[index + 1 :]) % 2 == 1
