"""LOS102 sigmoid-before-bce-with-logits: the loss gets probabilities and applies sigmoid a second time.

What it sees
------------
On repeated calls of `binary_cross_entropy_with_logits`, the autograd graph shows that the input comes directly from a
sigmoid (or a softmax). The inside of a compiled model is not visible: there, inputs that fill the interval [0, 1] and
never leave it, call after call, count as the same.

Why it hurts
------------
`binary_cross_entropy_with_logits` applies the sigmoid itself. Applied twice, all outputs are between 0.5 and 0.73: no
sample can be predicted negative, the loss of a negative sample never falls below 0.69, and gradients shrink.

Evidence
--------
The line of the loss, the shape and range of its input, the operations that produced it, and the number of calls.

Use instead
-----------
    logits = model(x)                                         # no sigmoid at the end of the model
    loss = F.binary_cross_entropy_with_logits(logits, y)
    probabilities = logits.sigmoid()                          # only where probabilities are needed

When it is fine
---------------
A sigmoid further inside the model (gates, attention, a bounded head like `20 * sigmoid(x) - 10`) is not the direct
input of the loss. `binary_cross_entropy` needs probabilities.
"""

from typing import Final

from trueloop.event import LossComputed, Place
from trueloop.rules.rule import Findings, Rule, Severity, facts
from trueloop.usercode.source import Removal, remove_activation

__all__ = ["SigmoidBeforeBceWithLogits"]

CALLS: Final = 2  # Calls that must show a sigmoid in the graph: a single one may be an experiment
CALLS_BY_VALUE: Final = 6  # Calls that must show it if only the values are visible
REACH: Final = 0.1  # By value, inputs must come this close to 0 and to 1 without passing them: small logits do not


class SigmoidBeforeBceWithLogits(Rule, code="LOS102", severity=Severity.ERROR):
    not_applicable = "binary_cross_entropy_with_logits was not called"

    def __init__(self) -> None:
        self._removal: dict[Place | None, Removal] = {}
        self._logits: set[Place | None] = set()  # Lines whose input was not the output of a sigmoid

    def on_loss_computed(self, event: LossComputed) -> Findings:
        if event.function != "binary_cross_entropy_with_logits" or event.place in self._logits or not event.preceding:
            return
        activation = next((n for n in event.preceding if n.startswith(("SigmoidBackward", "SoftmaxBackward"))), "")
        by_value = event.preceding[-1].startswith("Compiled") and _fills_the_unit_interval(event)
        if not activation and not by_value:
            self._logits.add(event.place)
            return
        name = "softmax" if activation.startswith("Softmax") else "sigmoid"
        if event.preceding_place is not None:
            self._removal[event.place] = remove_activation(
                event.preceding_place, (name,), name.capitalize(), by_layer=bool(event.preceding_module)
            )
        calls = self.count(event.place)
        if calls < (CALLS if activation else CALLS_BY_VALUE):
            return
        removal = self._removal.get(event.place)
        values = "" if event.input_range is None else " (values {:.3g} to {:.3g})".format(*event.input_range)
        yield self.finding(
            event,
            f"`binary_cross_entropy_with_logits` gets the output of a {name}{values} and applies sigmoid again: "
            "no sample can be predicted negative.",
            fix=f"Remove the {name} and pass the logits to `binary_cross_entropy_with_logits`.",
            evidence=facts(event, "loss=place input_shape input_range produced_by=preceding", calls=calls),
            place=event.place if removal is None else removal.place,
            diff="" if removal is None else removal.diff,
        )


def _fills_the_unit_interval(event: LossComputed) -> bool:
    if event.input_range is None:
        return False
    low, high = event.input_range
    return 0 <= low < REACH and 1 - REACH < high <= 1
