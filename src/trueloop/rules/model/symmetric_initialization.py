"""MDL104 symmetric-initialization: all units of a layer are equal and stay equal.

What it sees
------------
All units (rows) of a weight are equal and receive equal gradients, at the first step and again some steps later. Or
their gradient is exactly zero in every check, because zero weights follow zero weights.

Why it hurts
------------
Equal units with equal gradients stay equal forever: a layer of 256 units computes what one unit could. This happens
when weights are initialized with a constant or with zeros; only random initialization breaks the symmetry.

Evidence
--------
The parameter, the number of units, their common value, the gradient norm, and the step.

Use instead
-----------
    nn.init.kaiming_normal_(layer.weight)

or PyTorch's default, which is random. Constants are for biases and for the weights of norms.

When it is fine
---------------
Not reported: zero-initialized last layers of residual branches, classifiers and adapters (LoRA's B), and gates. Their
units differ after the first step, or when the gate opens.
"""

from typing import Final

from trueloop.event import IdenticalUnits, Stepped
from trueloop.rules.rule import Findings, Rule, Severity, facts

__all__ = ["SymmetricInitialization"]

ENOUGH: Final = 3  # Optimizer steps after which units that can differ do


class SymmetricInitialization(Rule, code="MDL104", severity=Severity.ERROR):
    not_applicable = "no optimizer step was seen"

    def __init__(self) -> None:
        self._steps = 0

    def on_stepped(self, event: Stepped) -> None:
        self._steps = max(self._steps, event.index + 1)

    def why_not_checked(self) -> str:
        return "" if self._steps >= ENOUGH else f"fewer than {ENOUGH} steps were taken"

    def on_identical_units(self, event: IdenticalUnits) -> Findings:
        moving = event.gradient_norm > 0
        how = "get equal gradients, so they stay equal" if moving else "get no gradient, so they never change"
        yield self.finding(
            event,
            f"All {event.units} units of {event.parameter} in {event.name} are equal (first value {event.value:.4g}) "
            f"at step {event.steps} and {how}.",
            fix="Initialize weights randomly: `nn.init.kaiming_normal_(layer.weight)`, or PyTorch's default.",
            evidence=facts(event, "model=name parameter units value gradient_norm step=steps"),
            place=event.defined,
        )
