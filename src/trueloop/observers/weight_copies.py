"""Copies of trained weights that the user's code updates from them (EMA, target network, teacher): do they follow?

Found by what runs: under no graph, outside of models, an in-place operation writes into a tensor with the shape of a
trained weight what was computed from that weight. However the update is spelled, its effect is measured: the share of
the distance that it covers. An update that computes the average of copy and weight into a new tensor, which nothing
reads, is one that is lost.
"""

import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median
from typing import Any, Final

import torch
from torch import Tensor

from trueloop.event import CopyEvaluatedLast, Place, WeightCopies
from trueloop.event.operation_names import ADDITIONS, DIFFERENCES
from trueloop.measure.parameters import parameters_of
from trueloop.measure.tensors import evenly_spaced, is_plain, is_readable, memory_of, tensors_in
from trueloop.observers.observer import Observer
from trueloop.taps.calls import ModuleCall, OperationCall, ProgramStart, RunEnd

__all__ = ["WeightCopiesObserver"]

PAIRS: Final = 16  # that are measured
NUMBERS: Final = 1024  # elements of each
WEIGHTS: Final = 4096  # of the optimizers
RESOLVED: Final = 1e-6  # of the weight's norm
_ADDS: Final = ("add_", "sub_", "__iadd__", "__isub__", "_foreach_add_", "_foreach_sub_")
_SCALES: Final = ("mul_", "__imul__", "_foreach_mul_")
_LERPS: Final = ("lerp_", "_foreach_lerp_")
_SUMS: Final = ADDITIONS | DIFFERENCES | {"lerp", "_foreach_add", "_foreach_lerp"}
_DIFFERENCES: Final = DIFFERENCES | {"_foreach_sub"}


@dataclass(slots=True)
class _Pair:
    copy: weakref.ref[Tensor]
    weight: weakref.ref[Tensor]
    name: str
    place: Place | None
    before: tuple[Tensor, Tensor] | None = None  # of the copy and the weight, when a program starts
    updated: bool = False
    first: Tensor | None = None  # of the copy, when it was found by a lost update
    result: weakref.ref[Tensor] | None = None  # of a lost update, until something reads it


class WeightCopiesObserver(Observer):
    emits = (CopyEvaluatedLast, WeightCopies)

    def prepare(self) -> None:
        self._pairs: dict[int, _Pair] = {}  # by the memory of the copy
        self._trained: dict[int, weakref.ref[Tensor]] = {}  # by memory
        self._from: dict[int, tuple[weakref.ref[Tensor], int]] = {}  # what was computed from which weight, by memory
        self._base: dict[int, weakref.ref[Tensor]] = {}  # the tensor of the user behind views, by memory
        self._scaled: set[int] = set()
        self._zero: dict[int, weakref.ref[Tensor]] = {}  # differences of a weight with itself
        self._shared: set[str] = set()
        self._with_graph: dict[int, tuple[weakref.ref[Tensor], int]] = {}  # like `_from`, with a graph
        self._copy_behind: dict[int, tuple[weakref.ref[Tensor], weakref.ref[Tensor]]] = {}
        """What was computed from which other tensor of the user's, by identity."""
        self._on = False
        self._holders: dict[tuple[int, int], bool] = {}  # whether a model holds copies, by its number and theirs
        self._evaluated: tuple[int, str, Place | None] | None = None  # step, model and line of its latest evaluation

    # -- models that hold the copies --

    def module_call_started(self, call: ModuleCall) -> None:
        known = self.objects.model(call.module) if self._pairs and not call.grad else None
        if known is None:
            return
        key = (known.number, len(self._pairs))
        if key not in self._holders:
            self._holders[key] = any(memory_of(p) in self._pairs for p in call.module.parameters() if is_plain(p))
        if self._holders[key]:
            self._evaluated = (self.bus.step, known.name, call.place)

    def run_ended(self, end: RunEnd) -> None:
        if self._evaluated is not None and self._evaluated[0] == self.bus.step:
            self.emit(CopyEvaluatedLast, self._evaluated[2], self._evaluated[1])

    # -- programs --

    def program_started(self, start: ProgramStart) -> None:
        self._on = start.phase == "training"
        if not self._on:
            return
        self._from, self._base, self._zero = {}, {}, {}
        self._scaled, self._copy_behind, self._with_graph = set(), {}, {}
        held = [p for _, optimizer in self.objects.living_optimizers() for p in parameters_of(optimizer)]
        self._trained = {memory_of(p): weakref.ref(p) for p in held[:WEIGHTS] if is_plain(p)}
        for pair in self._pairs.values():
            copy, weight = pair.copy(), pair.weight()
            pair.updated, pair.result = False, None
            pair.before = None if copy is None or weight is None else (_numbers(copy), _numbers(weight))

    def program_ended(self, start: ProgramStart) -> None:
        if not self._on:
            return
        self._on = False
        follows, distances, unchanged, lost, name, place = [], [], 0, 0, "", None
        for pair in self._pairs.values():
            copy = pair.copy()
            if pair.before is None or copy is None or not pair.updated:
                continue
            if pair.first is not None and (pair.result is None or pair.result() is not None):
                continue  # its result was read, or may be read later
            old, weight = pair.before
            gap = (weight - old).double()
            norm = float(weight.double().norm())
            if float(gap.norm()) <= RESOLVED * norm:
                continue
            moved = (_numbers(copy) - old).double()
            unchanged += not bool(moved.any()) and (pair.first is None or bool((pair.first == old).all()))
            lost += pair.first is not None
            follows.append(float(moved @ gap) / float(gap @ gap))
            distances.append(float(gap.norm()) / norm)
            name, place = name or pair.name, place or pair.place
        if follows:
            self.emit(WeightCopies, place, len(follows), name, False, unchanged, median(follows), max(follows),
                      median(distances), lost == len(follows))  # fmt: skip

    # -- operations --

    def operation_ended(self, call: OperationCall) -> None:
        if not self._on or not call.args:
            return
        if self.bus.call is not None:
            self._read(list(tensors_in((call.args, call.kwargs), 64)))
            return
        if call.name.endswith("_") and not call.name.endswith("__"):
            for target, others in _writes(call):
                self._write(call, target, others)
        elif call.name in ("__iadd__", "__isub__", "__imul__") and isinstance(call.args[0], Tensor):
            self._write(call, call.args[0], [t for t in call.args[1:] if isinstance(t, Tensor)])
        else:
            self._compute(call)

    def _compute(self, call: OperationCall) -> None:
        inputs = list(tensors_in((call.args, call.kwargs), 64))
        outputs = list(tensors_in(call.output, 64))
        for tensor in inputs:
            self._base.setdefault(memory_of(tensor), weakref.ref(tensor))
        self._average(call, inputs, outputs)
        memories = [memory_of(tensor) for tensor in inputs]
        if call.name in _DIFFERENCES and len(memories) == 2 and memories[0] == memories[1] in self._trained:
            self._zero |= {id(t): weakref.ref(t) for t in outputs}
        origins = [self._origin(tensor) for tensor in inputs]
        zero = any(_known(self._zero.get(id(t)), t) for t in inputs)
        for number, output in enumerate(outputs):
            own = origins[number] if len(outputs) > 1 and number < len(origins) else None
            origin = own or next((o for o in origins if o is not None), None)
            if output.requires_grad or memory_of(output) in memories:
                if origin is not None:
                    self._with_graph[id(output)] = (weakref.ref(output), origin)
                continue
            if origin is not None:
                self._from[id(output)] = (weakref.ref(output), origin)
            if zero:
                self._zero[id(output)] = weakref.ref(output)

    # -- averages that are computed into a new tensor --

    def _average(self, call: OperationCall, inputs: list[Tensor], outputs: list[Tensor]) -> None:
        self._read(inputs)
        if call.name in _SUMS and len(outputs) in (1, len(inputs) // 2):
            for number, output in enumerate(outputs):
                self._combine(call, inputs[number :: len(outputs)], output)
        for number, output in enumerate(outputs):
            copy = self._copy(inputs[number]) if number < len(inputs) else None
            if copy is not None and copy.shape == output.shape:
                self._copy_behind[id(output)] = (weakref.ref(output), weakref.ref(copy))

    def _read(self, inputs: list[Tensor]) -> None:
        """The result of an average that something reads is not lost."""
        for pair in self._pairs.values():
            if pair.result is not None and any(pair.result() is tensor for tensor in inputs):
                pair.result = None

    def _copy(self, tensor: Tensor) -> Tensor | None:
        """The user's tensor, with values of its own, that a tensor is or was computed from."""
        memory = memory_of(tensor)
        if memory in self._trained or not tensor.is_floating_point() or tensor.numel() < 2:
            return None
        entry = self._copy_behind.get(id(tensor))
        if entry is not None and entry[0]() is tensor:
            return entry[1]()
        base = self._base.get(memory, weakref.ref(tensor))()
        return base if base is not None and base.is_leaf and base.is_cpu and is_plain(base) else None

    def _combine(self, call: OperationCall, inputs: list[Tensor], output: Tensor) -> None:
        """Is the output an average of a trained weight and a copy of it?"""
        weights = [(tensor, memory) for tensor in inputs if (memory := self._weight_behind(tensor)) is not None]
        others = [self._copy(tensor) for tensor in inputs if self._weight_behind(tensor) is None]
        copies = [tensor for tensor in others if tensor is not None]
        weight = self._trained[weights[0][1]]() if len(weights) == 1 else None
        if weight is None or len(copies) != 1 or weight.shape != output.shape or copies[0].shape != output.shape:
            return
        copy, known = copies[0], self._pairs.get(memory_of(copies[0]))
        if known is not None:
            if known.first is not None:
                known.updated, known.result = True, weakref.ref(output)
            return
        if len(self._pairs) < PAIRS and _is_average(_numbers(output), _numbers(copy), _numbers(weight)):
            name, numbers = self.objects.name_of(weight), _numbers(copy)
            pair = _Pair(weakref.ref(copy), weakref.ref(weight), name, call.place, first=numbers)
            self._pairs[memory_of(copy)] = pair

    def _weight_behind(self, tensor: Tensor) -> int | None:
        """The memory of the trained weight, with a graph or without."""
        entry = self._with_graph.get(id(tensor))
        return entry[1] if entry is not None and entry[0]() is tensor else self._origin(tensor)

    # -- writes --

    def _origin(self, tensor: Tensor) -> int | None:
        """The memory of the trained weight that a tensor is, or was computed from."""
        memory = memory_of(tensor)
        if memory in self._trained:
            return memory
        entry = self._from.get(id(tensor))
        return entry[1] if entry is not None and entry[0]() is tensor else None

    def _write(self, call: OperationCall, target: Tensor, others: list[Tensor]) -> None:
        memory = memory_of(target)
        self._read([target, *others])
        if memory in self._trained:
            self._write_weight(call, memory, others)
            return
        known = self._pairs.get(memory)
        if known is not None:
            known.updated = True
        for other in others:
            origin = self._origin(other)
            weight = None if origin is None else self._trained[origin]()
            if weight is None or weight.shape != target.shape or known is not None or len(self._pairs) >= PAIRS:
                continue
            base = self._base.get(memory, weakref.ref(target))()
            base = target if base is None or base.shape != target.shape else base
            if is_plain(base) and is_readable(base) and base.is_cpu and base.is_floating_point() and base.numel() > 1:
                pair = _Pair(weakref.ref(base), weakref.ref(weight), self.objects.name_of(weight), call.place)
                self._pairs[memory] = pair
        self._base.setdefault(memory, weakref.ref(target))

    def _write_weight(self, call: OperationCall, memory: int, others: list[Tensor]) -> None:
        """A weight is averaged with itself: the copy was never copied."""
        if call.name in _SCALES:
            self._scaled.add(memory)
        same = any(self._origin(other) == memory for other in others)
        itself = any(memory_of(other) == memory for other in others)
        zero = any(_known(self._zero.get(id(other)), other) for other in others)
        averaged = call.name in _LERPS and itself
        averaged = averaged or (call.name in _ADDS and same and (memory in self._scaled or zero))
        weight = self._trained[memory]()
        if averaged and weight is not None:
            name = self.objects.name_of(weight)
            if name not in self._shared:
                self._shared.add(name)
                self.emit(WeightCopies, call.place, 1, name, True, 0, 0.0, 0.0, 0.0)


def _known(ref: weakref.ref[Tensor] | None, tensor: Tensor) -> bool:
    return ref is not None and ref() is tensor


def _writes(call: OperationCall) -> Iterator[tuple[Tensor, list[Tensor]]]:
    """The tensors that an in-place operation writes to, each with the others that it reads."""
    target: Any = call.args[0]
    rest = [*call.args[1:], *call.kwargs.values()]
    if isinstance(target, Tensor):
        yield target, [t for t in rest if isinstance(t, Tensor)]
    elif isinstance(target, (list, tuple)):
        lists = [value for value in rest if isinstance(value, (list, tuple)) and len(value) == len(target)]
        for number, tensor in enumerate(target):
            if isinstance(tensor, Tensor):
                yield tensor, [value[number] for value in lists if isinstance(value[number], Tensor)]


def _is_average(result: Tensor, copy: Tensor, weight: Tensor) -> bool:
    """a * copy + b * weight, with a and b between 0 and 1 and a sum of 1."""
    result, copy, weight = result.double(), copy.double(), weight.double()
    gap = weight - copy
    if not bool(gap.norm() > RESOLVED * weight.norm()):
        return False
    share = float((result - copy) @ gap) / float(gap @ gap)
    rest = (result - copy - share * gap).norm()
    return 0 < share < 1 and bool(rest <= 1e-3 * gap.norm() + 1e-6 * weight.norm())


@torch.no_grad()
def _numbers(tensor: Tensor) -> Tensor:
    return evenly_spaced(tensor.detach().reshape(-1), NUMBERS).float().clone()
