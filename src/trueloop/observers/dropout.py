"""Dropout functions that drop values although their module is in eval mode."""

from trueloop.event import DropoutWhileEvaluating
from trueloop.observers.observer import Observer
from trueloop.taps.calls import DropoutCall
from trueloop.usercode.names import says_monte_carlo

__all__ = ["DropoutObserver"]


class DropoutObserver(Observer):
    emits = (DropoutWhileEvaluating,)

    def dropout_called(self, call: DropoutCall) -> None:
        if call.owner is None or call.owner.training:
            return
        name = type(call.owner).__name__
        on_purpose = any(says_monte_carlo(word) for word in (name, *call.callers))
        self.emit(DropoutWhileEvaluating, call.place, call.function, float(call.probability), name, on_purpose)
