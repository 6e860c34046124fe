"""GRD103 step-without-gradient: the optimizer steps though no new gradient has come.

What it sees
------------
At least twice, an optimizer stepped with exactly the gradients of its last step (no backward in between), or none of its parameters had a
gradient and no backward had made one.

Why it hurts
------------
A repeated step walks twice along a gradient that is out of date: the learning rate is silently doubled. A step without any
gradient does nothing, so the parameters are never trained.

Evidence
--------
The optimizer, how many steps found the old gradients or none, and of how many.

Use instead
-----------
    loss.backward()
    optimizer.step()     # once for each backward, or for each window of them

When it is fine
---------------
Gradients that are assigned by hand (`p.grad = ...`) count as new. A single such step (a scheduler's warm-up trick) is not reported, nor are
steps whose closure computes the gradients.
"""

from __future__ import annotations

from typing import Final, final

from trueloop.event import Stepped
from trueloop.finding import Severity
from trueloop.rules.rule import Findings, Rule

__all__ = ["StepWithoutGradient"]

ENOUGH: Final = 2
"""One step without a gradient is a known trick to quiet a scheduler; two are a habit."""


@final
class StepWithoutGradient(Rule):
    code = "GRD103"
    name = "step-without-gradient"
    severity = Severity.ERROR
    unjudged = "no optimizer step was seen"
    explained_by = ("loss-not-connected", "optimizer-holds-old-parameters")

    def __init__(self) -> None:
        self._steps: dict[int, int] = {}
        self._bare: dict[tuple[int, str], int] = {}

    def on_stepped(self, event: Stepped) -> Findings:
        steps = self._steps[event.optimizer] = self._steps.get(event.optimizer, 0) + 1
        if event.gradients not in ("same", "none") or event.closure:
            return
        key = (event.optimizer, event.gradients)
        bare = self._bare[key] = self._bare.get(key, 0) + 1
        if bare < ENOUGH:
            return
        found = "the gradients of its last step, unchanged" if event.gradients == "same" else "no gradient at all"
        yield self.finding(
            event,
            f"{event.name} stepped {bare} times and found {found}: no backward had come in between.",
            fix="Call backward before each step, and step once for it.",
            evidence={"optimizer": event.name, "found": event.gradients, "such_steps": bare, "steps": steps},
        )
