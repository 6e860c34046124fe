"""GRD102 gradients-cleared-before-step: the gradients are thrown away before the step can use them.

What it sees
------------
A backward brought gradients to an optimizer's parameters, they were reset, and then the optimizer stepped: it found
nothing.

Why it hurts
------------
The step moves no weight, or moves them by momentum and decay only. The loss does not fall, and nothing says why.

Evidence
--------
The optimizer, how many of its steps found nothing, and the lines of the backward and of the step.

Use instead
-----------
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

When it is fine
---------------
Never in a training step. A reset after the step, or before the backward, is the ordinary loop and is not reported.
"""

from __future__ import annotations

from typing import final

from trueloop.event import Stepped
from trueloop.finding import Severity
from trueloop.rules.rule import Findings, Rule

__all__ = ["GradientsClearedBeforeStep"]


@final
class GradientsClearedBeforeStep(Rule):
    code = "GRD102"
    name = "gradients-cleared-before-step"
    severity = Severity.ERROR
    not_applicable = "no optimizer step was seen"

    def __init__(self) -> None:
        self._steps: dict[int, int] = {}
        self._empty: dict[int, int] = {}

    def on_stepped(self, event: Stepped) -> Findings:
        steps = self._steps[event.optimizer] = self._steps.get(event.optimizer, 0) + 1
        if event.gradients != "cleared":
            return
        empty = self._empty[event.optimizer] = self._empty.get(event.optimizer, 0) + 1
        backward = event.backward_places[0] if event.backward_places else None
        where = f" of line {backward.line}" if backward else ""
        yield self.finding(
            event,
            f"{event.name} stepped with no gradient: those that the backward{where} had made were reset before the step.",
            fix="Reset before backward, or after the step; never between the two.",
            evidence={
                "optimizer": event.name,
                "empty_steps": empty,
                "steps": steps,
                "backward": f"{backward.path}:{backward.line}" if backward else None,
            },
        )
