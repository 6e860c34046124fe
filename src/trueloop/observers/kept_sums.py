"""Sums of gradients that the script makes itself and assigns to `.grad`: does it clear them between two steps?

In recorded steps every write to a sum since the step before is accounted for by its version: all of them add gradients
that `torch.autograd.grad` has just returned, so that the sum still holds those of the step before.
"""

import weakref
from collections import Counter
from typing import Any, Final

from torch import Tensor

from trueloop.event import GradientsNotCleared, Place
from trueloop.measure.parameters import parameters_of
from trueloop.measure.tensors import is_plain, tensors_in
from trueloop.observers.observer import Observer
from trueloop.taps.calls import OperationCall, ProgramStart, StepCall
from trueloop.torch_private.tensors import tensor_version

__all__ = ["KeptSumsObserver"]

ENOUGH: Final = 3  # recorded steps
SAMPLE: Final = 6  # parameters of an optimizer
_ADDING: Final = frozenset({"add_", "__iadd__", "_foreach_add_"})
_SCALING: Final = frozenset(
    {"mul", "div", "true_divide", "__mul__", "__rmul__", "__truediv__", "detach", "clone", "to"}
)


class KeptSumsObserver(Observer):
    emits = (GradientsNotCleared,)

    def prepare(self) -> None:
        self._after: dict[int, list[tuple[weakref.ref[Tensor], int]]] = {}
        """By optimizer: gradients that its latest step used, with their versions at its end."""
        self._found: Counter[Place | None] = Counter()
        self._on = False
        self._start()

    def _start(self) -> None:
        self._fresh: dict[int, weakref.ref[Tensor]] = {}  # what `torch.autograd.grad` returned, and multiples of it
        self._adds: Counter[int] = Counter()  # of fresh gradients to a tensor
        self._line: Place | None = None  # the latest that added

    def program_started(self, start: ProgramStart) -> None:
        self._on = start.phase == "training"
        self._start()

    def program_ended(self, start: ProgramStart) -> None:
        self._on = False
        self._start()

    def operation_ended(self, call: OperationCall) -> None:
        if not self._on:
            return
        if call.name == "grad":
            self._remember(call.output)
        elif call.name in _ADDING and self._fresh and len(call.args) > 1:
            sums, added = list(tensors_in(call.args[0], 512)), list(tensors_in(call.args[1], 512))
            if len(sums) == len(added) and all(self._is_fresh(tensor) for tensor in added):
                self._adds.update(id(tensor) for tensor in sums)
                self._line = call.place
        elif call.name in _SCALING and self._fresh:
            given = list(tensors_in((call.args, call.kwargs), 8))
            if len(given) == 1 and self._is_fresh(given[0]):
                self._remember(call.output)

    def _remember(self, output: Any) -> None:
        self._fresh |= {id(tensor): weakref.ref(tensor) for tensor in tensors_in(output, 512) if is_plain(tensor)}

    def _is_fresh(self, tensor: Tensor) -> bool:
        ref = self._fresh.get(id(tensor))
        return ref is not None and ref() is tensor

    def step_started(self, call: StepCall) -> None:
        before = self._after.get(self.objects.optimizer(call.optimizer).number, []) if self._adds else []
        gradients = {id(gradient) for p in parameters_of(call.optimizer) if (gradient := p.grad) is not None}
        sums = [(tensor, version) for ref, version in before if (tensor := ref()) is not None]
        if not before or len(sums) < len(before) or any(id(tensor) not in gradients for tensor, _ in sums):
            return
        if all(0 < self._adds[id(tensor)] == tensor_version(tensor) - version for tensor, version in sums):
            self._found[self._line] += 1
            if self._found[self._line] == ENOUGH:
                shape = tuple(sums[0][0].shape)
                self.emit(GradientsNotCleared, self._line, ENOUGH + 1, len(sums), shape, True)

    def step_ended(self, call: StepCall) -> None:
        gradients = [gradient for p in parameters_of(call.optimizer) if (gradient := p.grad) is not None][:SAMPLE]
        known = [(weakref.ref(gradient), tensor_version(gradient)) for gradient in gradients if is_plain(gradient)]
        self._after[self.objects.optimizer(call.optimizer).number] = known
