"""Samples beside their dense targets, in training and in evaluation, as small maps: do they lie on one another?"""

import weakref
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import torch
from torch import Tensor

from trueloop.event import Alignment, Place, TargetsAligned
from trueloop.measure.alignment import alignment, searched, small_input, small_target
from trueloop.measure.tensors import evenly_spaced, is_plain, is_readable
from trueloop.observers.observer import Observer
from trueloop.taps.calls import LossCall, ModuleCall, OperationCall, RunEnd, tensors_in

__all__ = ["TargetAlignmentObserver"]

Phase = Literal["training", "evaluation"]

ROWS: Final = 16  # of a call
MOST_ROWS: Final = 192  # of a phase
CALLS: Final = 48  # of a phase, without those whose target has no such dimensions
ON_DEVICE: Final = 6
FEW: Final = 0.2  # of the training rows that fit as they are
MOST: Final = 0.6  # of the evaluated ones
_COMPARES: Final = (
    *("eq", "__eq__", "ne", "__ne__", "sub", "__sub__", "rsub", "__rsub__", "mul", "__mul__", "logical_and", "__and__"),
    *("__or__", "logical_or", "cross_entropy", "binary_cross_entropy_with_logits", "mse_loss", "l1_loss"),
)
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


class TargetAlignmentObserver(Observer):
    emits = (TargetsAligned,)

    def prepare(self) -> None:
        self._maps: dict[tuple[int, Phase], _Maps] = {}
        self._calls: Counter[tuple[int, Phase]] = Counter()
        self._waiting: _Waiting | None = None
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
        if not given or (key in self._maps and self._maps[key].rows >= MOST_ROWS):
            return
        first = given[0]
        if self._calls[key] > ON_DEVICE and not first.is_cpu and not self.bus.recording:
            return
        if not is_readable(first) or first.requires_grad or not first.is_floating_point() or first.ndim > 4:
            return
        small = small_input(evenly_spaced(first, ROWS))
        if small is not None:
            self._waiting = _Waiting(known.number, phase, call.place, small.cpu(), tuple(first.shape))

    def module_call_ended(self, call: ModuleCall) -> None:
        if self._waiting is not None and not call.failed and self.objects.model(call.module) is not None:
            self._derived = {id(t): weakref.ref(t) for t in tensors_in(call.output)}

    def loss_called(self, loss: LossCall) -> None:
        if self._waiting is not None and not _is_moved(loss.input.grad_fn):
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
        if any(derived) and call.name not in _MOVES and len(self._derived) < 256:
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
            rows = evenly_spaced(target, ROWS)
            shape = (len(rows), *waiting.shape[1:])
            small = small_target(rows, shape, waiting.small.shape[-1])
        if small is None:
            return
        maps = self._maps.setdefault((waiting.model, waiting.phase), _Maps(waiting.place))
        if not maps.inputs or maps.inputs[0].shape[1:] == waiting.small.shape[1:]:
            maps.inputs.append(waiting.small)
            maps.targets.append(small.cpu())
            maps.rows += len(small)
        self._waiting = None

    @torch.no_grad()
    def run_ended(self, end: RunEnd) -> None:
        for (model, phase), maps in self._maps.items():
            if phase == "training":
                trained, evaluated = _aligned(maps), _aligned(self._maps.get((model, "evaluation")))
                if trained is None:
                    continue
                few = evaluated is not None and trained.aligned < FEW * trained.rows
                if few and evaluated is not None and evaluated.aligned > MOST * evaluated.rows:
                    trained = searched(torch.cat(maps.inputs), torch.cat(maps.targets), trained)
                name = self.objects.models[model].name
                self.emit(TargetsAligned, maps.place, model, name, trained, evaluated)


def _aligned(maps: _Maps | None) -> Alignment | None:
    return None if maps is None else alignment(torch.cat(maps.inputs), torch.cat(maps.targets))


def _is_moved(node: Any) -> bool:
    """The prediction was flipped or moved on its way to the loss."""
    for _ in range(_DEEP):
        if node is None:
            return False
        if node.name().startswith(_MOVED):
            return True
        following = [next_node for next_node, _ in node.next_functions if next_node is not None]
        node = following[0] if following else None
    return False
