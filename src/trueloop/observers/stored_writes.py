"""Does a training step write into the rows that it takes from the script's own tensors?

Seen in recorded steps: a view of rows of a tensor from before the step (or one tensor of a list) is written in place
and goes into a model. Whether the same rows were written again is read from the tensor at later recorded steps.
"""

import weakref
from dataclasses import dataclass, field
from typing import Any, Final

import torch
from torch import Tensor, nn

from trueloop.event import Place, StoredRowsRewritten
from trueloop.event.operation_names import PICKS
from trueloop.measure.tensors import evenly_spaced, is_plain, is_readable, tensors_in
from trueloop.observers.observer import Observer
from trueloop.taps.calls import BatchDrawn, ModuleCall, OperationCall, ProgramStart, RunEnd
from trueloop.torch_private.tensors import view_base

__all__ = ["StoredWritesObserver"]

PROGRAMS: Final = 3  # first recorded steps that are followed
ROWS: Final = 24  # of a step that are read again
NUMBERS: Final = 4096  # of a row
SAME: Final = 0.2  # of the parts that a step writes and the next one too: with more, it is a state and not data
_WRITES: Final = ("__setitem__", "__iadd__", "__isub__", "__imul__", "__itruediv__")
_NO_WRITES: Final = (
    *("requires_grad_", "copy_", "detach_", "set_", "resize_", "share_memory_", "normal_", "uniform_", "random_"),
    *("bernoulli_", "unsqueeze_", "squeeze_", "t_", "transpose_", "exponential_", "swapaxes_", "zero_", "fill_"),
)


@dataclass(slots=True)
class _Row:
    """A part of a stored tensor that was written, with some of its numbers at the end of that step."""

    owner: weakref.ref[Tensor]
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int
    then: Tensor
    now: Tensor
    function: str
    place: Place | None


@dataclass(slots=True)
class _Step:
    """Addresses and weak references, during one recorded step."""

    written: dict[int, tuple[Any, ...]] = field(default_factory=dict)  # by address: owner, shape, stride, offset, call
    owners: dict[int, weakref.ref[Tensor]] = field(default_factory=dict)  # of what was written
    derived: dict[int, weakref.ref[Tensor]] = field(default_factory=dict)  # computed from what was written
    made: dict[int, weakref.ref[Tensor]] = field(default_factory=dict)  # by the step itself
    learned: dict[int, weakref.ref[Tensor]] = field(default_factory=dict)  # computed from outputs of models
    entered: bool = False


class StoredWritesObserver(Observer):
    emits = (StoredRowsRewritten,)
    rarely = ("module_call_started", "module_call_ended", "batch_drawn")

    def prepare(self) -> None:
        self._step: _Step | None = None
        self._programs = 0
        self._rows: list[_Row] = []
        self._addresses: list[set[int]] = []

    @torch.no_grad()
    def program_started(self, start: ProgramStart) -> None:
        self._read_again()
        if start.phase == "training" and self._programs < PROGRAMS:
            self._step = _Step()
            self._programs += 1

    def batch_drawn(self, drawn: BatchDrawn) -> None:
        if self._step is not None:
            _note(self._step.made, tensors_in(drawn.batch, 64))

    def operation_ended(self, call: OperationCall) -> None:
        step = self._step
        if step is None or self.bus.call is not None:
            return
        given = [t for t in tensors_in((call.args, call.kwargs), 64) if is_plain(t)]
        outputs = [t for t in tensors_in(call.output, 64) if is_plain(t)]
        writes = call.name in _WRITES or (call.name.endswith("_") and not call.name.endswith("__"))
        if writes and call.name not in _NO_WRITES and given and call.args and isinstance(call.args[0], Tensor):
            self._written(step, call, given)
        if any(_has(step.learned, t) for t in given):
            _note(step.learned, outputs)
        sources = given[:1] if call.name in PICKS | {"gather", "take"} else given
        if any(_has(step.derived, t) or _has(step.owners, _owner(t)) for t in sources):
            _note(step.derived, [t for t in outputs if t.is_floating_point()])
        _note(step.made, [t for t in outputs if view_base(t) is None and not any(t is one for one in given)])

    def _written(self, step: _Step, call: OperationCall, given: list[Tensor]) -> None:
        target = given[0]
        if target is not call.args[0] or isinstance(target, nn.Parameter) or target.requires_grad:
            return
        owner = _owner(target)
        if _has(step.made, owner) or not is_readable(target) or not target.is_floating_point() or not target.is_cpu:
            return
        if any(_has(step.learned, t) for t in given[1:]):
            step.made[id(owner)] = weakref.ref(owner)  # a memory that the model writes
            return
        part = target
        if target is owner and target.ndim > 1 and call.name == "__setitem__":
            index = call.args[1][0] if isinstance(call.args[1], tuple) and call.args[1] else call.args[1]
            if not isinstance(index, int) or isinstance(call.args[2], Tensor):
                return
            part = target.detach()[index]
        part = _whole_row(part.detach(), owner.detach())
        facts = (weakref.ref(owner), tuple(part.shape), part.stride(), part.storage_offset(), call.name, call.place)
        step.written.setdefault(part.data_ptr(), facts)
        _note(step.owners, [owner])
        _note(step.derived, [target])

    def module_call_started(self, call: ModuleCall) -> None:
        step = self._step
        if step is not None and step.written and self.objects.model(call.module) is not None:
            given = (*tensors_in(call.args, 64), *tensors_in(call.kwargs, 64))
            step.entered |= any(_has(step.derived, t) or _has(step.owners, _owner(t)) for t in given)

    def module_call_ended(self, call: ModuleCall) -> None:
        if self._step is not None:
            _note(self._step.learned, tensors_in(call.output, 64))

    @torch.no_grad()
    def program_ended(self, start: ProgramStart) -> None:
        step, self._step = self._step, None
        if step is None:
            return
        self._addresses.append(set(step.written))
        if step.entered:
            room = ROWS
            for owner, shape, stride, offset, name, place in step.written.values():
                stored = owner()
                if stored is None or _has(step.made, stored) or room <= 0:
                    continue
                for sub_shape, sub_stride, sub_offset in _rows_in(shape, stride, offset, len(step.written)):
                    then = _numbers(stored, sub_shape, sub_stride, sub_offset)
                    self._rows.append(_Row(owner, sub_shape, sub_stride, sub_offset, then, then, name, place))
                    room -= 1

    def _read_again(self) -> None:
        for row in self._rows:
            owner = row.owner()
            if owner is not None:
                row.now = _numbers(owner, row.shape, row.stride, row.offset)

    @torch.no_grad()
    def run_ended(self, end: RunEnd) -> None:
        self._read_again()
        following = zip(self._addresses, self._addresses[1:], strict=False)
        if len(self._addresses) < 2 or any(len(one & other) > SAME * len(other) for one, other in following):
            return
        changed = [(row.then, row.now) for row in self._rows if not torch.equal(row.then, row.now)]
        if changed:
            zeros = [((now == 0).float().mean() - (then == 0).float().mean()).item() for then, now in changed]
            sizes = [(now.abs().mean() / then.abs().mean().clamp_min(1e-12)).item() for then, now in changed]
            means = [((now.mean() - then.mean()) / then.std().clamp_min(1e-12)).item() for then, now in changed]
            row = self._rows[0]
            self.emit(StoredRowsRewritten, row.place, row.function, len(self._rows), len(changed), tuple(zeros),
                      tuple(sizes), tuple(means))  # fmt: skip


def _owner(tensor: Tensor) -> Tensor:
    base = view_base(tensor)
    return tensor if base is None else base


def _whole_row(part: Tensor, owner: Tensor) -> Tensor:
    """The row of its owner that a patch lies in; rows as they are."""
    if part.shape[-owner.ndim + 1 :] == owner.shape[1:] or not owner.ndim or not owner.is_contiguous():
        return part
    first = (part.storage_offset() - owner.storage_offset()) // max(1, owner.stride(0))
    reach = sum((size - 1) * stride for size, stride in zip(part.shape, part.stride(), strict=True))
    last = (part.storage_offset() + reach - owner.storage_offset()) // max(1, owner.stride(0))
    if owner.shape[0] == 1 or (first, last) == (0, owner.shape[0] - 1):
        return owner
    return owner[first : last + 1] if first != last else owner[first]


def _note(known: dict[int, weakref.ref[Tensor]], tensors: Any) -> None:
    for tensor in tensors:
        if len(known) < 4096:
            known[id(tensor)] = weakref.ref(tensor)


def _has(known: dict[int, weakref.ref[Tensor]], tensor: Tensor) -> bool:
    entry = known.get(id(tensor))
    return entry is not None and entry() is tensor


def _rows_in(
    shape: tuple[int, ...], stride: tuple[int, ...], offset: int, parts: int
) -> list[tuple[tuple[int, ...], tuple[int, ...], int]]:
    """Of a slice of many rows: its rows."""
    if parts > 4 or len(shape) < 2:
        return [(shape, stride, offset)]
    every = -(-shape[0] // ROWS)
    return [(shape[1:], stride[1:], offset + index * stride[0]) for index in range(0, shape[0], every)]


def _numbers(owner: Tensor, shape: tuple[int, ...], stride: tuple[int, ...], offset: int) -> Tensor:
    part = owner.detach().as_strided(shape, stride, offset)
    return evenly_spaced(part.reshape(-1), NUMBERS).float().clone()
