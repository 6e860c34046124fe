"""Dropout functions that drop although their module is in eval mode."""

from __future__ import annotations

from trueloop.event import DropoutWhileEvaluating
from trueloop.probes.probe import Probe
from trueloop.rewrite import says_monte_carlo
from trueloop.taps.moment import DropoutCall

__all__ = ["DropoutProbe"]


class DropoutProbe(Probe):
    emits = (DropoutWhileEvaluating,)

    def dropout_called(self, call: DropoutCall) -> None:
        if call.owner is None or call.owner.training:
            return
        name = type(call.owner).__name__
        self.wire.emit(
            DropoutWhileEvaluating(
                step=self.wire.step,
                place=call.place,
                function=call.function,
                probability=float(call.probability),
                module=name,
                on_purpose=any(says_monte_carlo(word) for word in (name, *call.callers)),
            )
        )
