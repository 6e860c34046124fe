"""Which parameters of an optimizer had no gradient at any of its steps, over the whole run?

After the first steps usually none is left, so a step costs nothing more.
"""

import weakref
from typing import Final

from torch import Tensor

from trueloop.event import ParametersWithoutGradient
from trueloop.measure.parameters import parameters_of
from trueloop.observers.observer import Observer
from trueloop.taps.calls import RunEnd, StepCall

__all__ = ["GradientlessParametersObserver"]

MOST: Final = 256  # with more, a run is left alone


class GradientlessParametersObserver(Observer):
    emits = (ParametersWithoutGradient,)

    def prepare(self) -> None:
        self._waiting: dict[tuple[int, str], weakref.ref[Tensor]] = {}
        """Parameters without a gradient so far, by identity and name."""
        self._reached: set[str] = set()
        self._off = False

    def step_started(self, call: StepCall) -> None:
        if self._off:
            return
        if call.closure:  # its gradients come inside the step
            self._off = True
        elif call.index == 0:
            self._first_look(call)
        if self._waiting:
            for key in [key for key, ref in self._waiting.items() if (p := ref()) is not None and p.grad is not None]:
                del self._waiting[key]
                self._reached.add(key[1])

    def _first_look(self, call: StepCall) -> None:
        for parameter in parameters_of(call.optimizer):
            if parameter.grad is None and parameter.requires_grad:
                self._waiting[id(parameter), self.objects.name_of(parameter)] = weakref.ref(parameter)
                if len(self._waiting) > MOST:
                    self._off = True
                    return

    def run_ended(self, end: RunEnd) -> None:
        names = {name for _, name in self._waiting if name} - self._reached
        if names and not self._off:
            self.emit(ParametersWithoutGradient, None, tuple(sorted(names)))
