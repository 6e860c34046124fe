"""Gradients of tensors that no optimizer holds: are they cleared between two updates of the script's own?

Compared at the first backward calls of each line: the numbers of the gradients after one call and before the next, and
those of the tensors themselves, which the script has changed in between.
"""

import weakref
from dataclasses import dataclass, field
from typing import Any, Final

import torch
from torch import Tensor

from trueloop.event import GradientsNotCleared, Place
from trueloop.measure.tensors import is_plain, is_readable
from trueloop.observers.observer import Observer
from trueloop.taps.calls import BackwardCall

__all__ = ["UnheldGradientsObserver"]

CALLS: Final = 5  # backward calls of a line that are compared
ENOUGH: Final = 3  # in a row, before which nothing was cleared
NODES: Final = 5000  # of a graph
LEAVES: Final = 8  # that are compared
NUMBERS: Final = 64  # of each


@dataclass(slots=True)
class _Leaf:
    tensor: weakref.ref[Tensor]
    values: Tensor
    gradient: Tensor


@dataclass(slots=True)
class _Line:
    calls: int = 0
    kept: int = 0  # calls in a row
    leaves: list[_Leaf] = field(default_factory=list)


class UnheldGradientsObserver(Observer):
    emits = (GradientsNotCleared,)

    def prepare(self) -> None:
        self._lines: dict[Place | None, _Line] = {}
        self._found: list[weakref.ref[Tensor]] = []

    def backward_started(self, call: BackwardCall) -> None:
        line = self._lines.get(call.place)
        if line is None:
            line = self._lines[call.place] = _Line()
        line.calls += 1
        self._found = []
        if line.calls > CALLS or call.inside_step:
            return
        before, line.leaves = line.leaves, []
        states = [_was_kept(leaf) for leaf in before]
        line.kept = line.kept + 1 if "kept" in states and "cleared" not in states else 0
        if line.kept == ENOUGH:
            shape = next(tuple(t.shape) for leaf in before if (t := leaf.tensor()) is not None)
            self.emit(GradientsNotCleared, call.place, line.kept + 1, len(before), shape)
        leaves = _leaves([t.grad_fn for t in call.tensors if isinstance(t, Tensor)])
        held = self.objects.held_ids()
        self._found = [weakref.ref(leaf) for leaf in leaves if id(leaf) not in held][:LEAVES]

    def backward_ended(self, call: BackwardCall) -> None:
        if not self._found:
            return
        found, self._found = self._found, []
        line = self._lines.get(call.place)
        for ref in found if line is not None else ():
            tensor = ref()
            gradient = None if tensor is None else tensor.grad
            if line is None or tensor is None or gradient is None:
                continue
            if _is_read(tensor) and _is_read(gradient):
                line.leaves.append(_Leaf(ref, _numbers(tensor), _numbers(gradient)))


def _was_kept(leaf: _Leaf) -> str:
    """kept: its gradient is what it was, and it was changed itself."""
    tensor = leaf.tensor()
    gradient = None if tensor is None else tensor.grad
    if tensor is None or gradient is None or not _is_read(gradient):
        return "cleared"
    if not torch.equal(_numbers(gradient), leaf.gradient):
        return "cleared"
    moved = not torch.equal(_numbers(tensor), leaf.values)
    return "kept" if moved and bool(leaf.gradient.any()) else "same"


def _is_read(tensor: Tensor) -> bool:
    return is_plain(tensor) and is_readable(tensor) and tensor.numel() > 0


def _numbers(tensor: Tensor) -> Tensor:
    return tensor.detach().reshape(-1)[:NUMBERS].to("cpu", copy=True)


def _leaves(roots: list[Any]) -> list[Tensor]:
    """Of a graph; none, if it is large."""
    waiting = [node for node in roots if node is not None]
    seen, leaves = set(waiting), list[Tensor]()
    while waiting and len(seen) < NODES:
        node = waiting.pop()
        if not node.next_functions:
            variable = getattr(node, "variable", None)
            leaves += [variable] if isinstance(variable, Tensor) else []
            continue
        following = [behind for behind, _ in node.next_functions if behind is not None and behind not in seen]
        seen.update(following)
        waiting += following
    return [] if waiting else leaves
