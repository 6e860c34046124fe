"""MDL104 units-start-equal: the units of a layer are copies of one another, and will stay so.

What it sees
------------
All units (rows) of a weight are equal, and receive equal gradients, at the first step and again some steps later. Or
all of them are stuck: their gradient is exactly zero at every look, because zero weights are fed with zeros.

Why it hurts
------------
Units that are equal and get equal gradients move together for ever: a layer of 256 units computes what one unit could.
Filling weights with a constant, or with zeros throughout, does this; only random starting values tell units apart.

Evidence
--------
The parameter, the number of units, their common value, the norm of the gradient, and the step.

Use instead
-----------
    nn.init.kaiming_normal_(layer.weight)

or PyTorch's default, which is random. Constants are for biases and for the weights of norms.

When it is fine
---------------
Zero-initialised last layers of residual branches, classifiers and adapters (LoRA's B), and gates, are not reported:
their units part at the first step, or as soon as the gate opens.
"""

from __future__ import annotations

from typing import Final, final

from trueloop.event import IdenticalUnits, Stepped
from trueloop.finding import Severity
from trueloop.rules.rule import Findings, Rule

__all__ = ["UnitsStartEqual"]

ENOUGH: Final = 3
"""Steps of an optimizer after which units that can part have parted."""


@final
class UnitsStartEqual(Rule):
    code = "MDL104"
    name = "units-start-equal"
    severity = Severity.ERROR
    not_applicable = "no optimizer step was seen"

    def __init__(self) -> None:
        self._steps = 0

    def on_stepped(self, event: Stepped) -> None:
        self._steps = max(self._steps, event.index + 1)

    def why_not_checked(self) -> str:
        return "" if self._steps >= ENOUGH else f"units are compared over {ENOUGH} steps, and fewer were taken"

    def on_identical_units(self, event: IdenticalUnits) -> Findings:
        how = (
            "receive equal gradients, so they stay one unit"
            if event.gradient_norm > 0
            else "receive no gradient, because zeros are fed to zeros, so nothing can ever move them"
        )
        yield self.finding(
            event,
            f"All {event.units} units of {event.parameter} in {event.name} are equal (first value {event.value:.4g}) "
            f"at step {event.steps} and {how}.",
            fix="Start weights from random values (nn.init.kaiming_normal_, or PyTorch's default); constants are for biases and norms.",
            evidence={
                "model": event.name,
                "parameter": event.parameter,
                "units": event.units,
                "value": event.value,
                "gradient_norm": event.gradient_norm,
                "step": event.steps,
            },
            place=event.defined,
        )
