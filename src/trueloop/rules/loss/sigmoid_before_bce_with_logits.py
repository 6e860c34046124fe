"""LOS102 sigmoid-before-bce-with-logits: the loss is given probabilities, and takes the sigmoid of them once more.

What it sees
------------
On repeated calls of `binary_cross_entropy_with_logits` the input comes straight from a sigmoid (or a softmax), seen in
its graph. Of a compiled model only the outside is seen: there, inputs that fill the interval from 0 to 1 and never
leave it, call after call, show the same.

Why it hurts
------------
`binary_cross_entropy_with_logits` applies the sigmoid itself. Applied twice it maps everything into (0.5, 0.73): no
sample can be called negative, the loss of a negative sample never falls below 0.69, and gradients shrink.

Evidence
--------
The line of the loss, the shape and range of its input, the operation behind it, and how many calls showed it.

Use instead
-----------
    logits = model(x)                                         # no sigmoid at the end of the model
    loss = F.binary_cross_entropy_with_logits(logits, y)
    probabilities = logits.sigmoid()                          # where probabilities are wanted

When it is fine
---------------
A sigmoid further inside (gates, attention, a head that is stretched afterwards: `20 * sigmoid(x) - 10`) is not straight
behind the loss. `binary_cross_entropy` wants probabilities.
"""

from __future__ import annotations

from typing import Final, final

from trueloop.event import LossComputed, Place
from trueloop.finding import Severity
from trueloop.rules.rule import Findings, Rule
from trueloop.usercode.source import Removal, shown_path, taking_out

__all__ = ["SigmoidBeforeBceWithLogits"]

CALLS: Final = 2
"""Calls that must show a sigmoid in the graph: what happens once may be a try."""
CALLS_BY_VALUE: Final = 6
"""Calls that must show it where only values can be seen."""
REACH: Final = 0.1
"""By value, inputs must come this near to 0 and to 1 without passing them: scores that are merely small do not."""


@final
class SigmoidBeforeBceWithLogits(Rule):
    code = "LOS102"
    name = "sigmoid-before-bce-with-logits"
    severity = Severity.ERROR
    not_applicable = "binary_cross_entropy_with_logits was not called"

    def __init__(self) -> None:
        self._calls: dict[Place | None, int] = {}
        self._removal: dict[Place | None, Removal] = {}
        self._clean: set[Place | None] = set()

    def on_loss_computed(self, event: LossComputed) -> Findings:
        if event.function != "binary_cross_entropy_with_logits" or event.place in self._clean or not event.preceding:
            return
        activation = next((n for n in event.preceding if n.startswith(("SigmoidBackward", "SoftmaxBackward"))), "")
        by_value = event.preceding[-1].startswith("Compiled") and _fills_the_unit_interval(event)
        if not activation and not by_value:
            self._clean.add(event.place)
            return
        name = "softmax" if activation.startswith("Softmax") else "sigmoid"
        if event.preceding_place is not None:
            self._removal[event.place] = taking_out(
                event.preceding_place, (name,), name.capitalize(), by_layer=bool(event.preceding_module)
            )
        self._calls[event.place] = calls = self._calls.get(event.place, 0) + 1
        if calls < (CALLS if activation else CALLS_BY_VALUE):
            return
        removal = self._removal.get(event.place)
        yield self.finding(
            event,
            f"binary_cross_entropy_with_logits is given the output of a {name}, {_range(event)}, and takes the sigmoid of it once more: "
            "no sample can be called negative.",
            fix=f"Give the loss the raw scores: remove the {name} before it.",
            evidence={
                "loss": "" if event.place is None else f"{shown_path(event.place.path)}:{event.place.line}",
                "input_shape": list(event.input_shape),
                "input_range": event.input_range,
                "behind": list(event.preceding),
                "calls": calls,
            },
            place=event.place if removal is None else removal.place,
            diff="" if removal is None else removal.diff,
        )


def _fills_the_unit_interval(event: LossComputed) -> bool:
    if event.input_range is None:
        return False
    low, high = event.input_range
    return 0 <= low < REACH and 1 - REACH < high <= 1


def _range(event: LossComputed) -> str:
    return "" if event.input_range is None else f"values from {event.input_range[0]:.3g} to {event.input_range[1]:.3g}"
