"""GRD103 step-without-gradient: the optimizer steps though no new gradient has come.

What it sees
------------
At least twice, an optimizer stepped with exactly the gradients of its last step (no backward in between), or none of
its parameters had a gradient and no backward had made one.

Why it hurts
------------
A repeated step walks twice along a gradient that is out of date: the learning rate is silently doubled. A step without
any gradient does nothing, so the parameters are never trained.

Evidence
--------
The optimizer, how many steps found the old gradients or none, and of how many.

Use instead
-----------
    loss.backward()
    optimizer.step()     # once for each backward, or for each window of them

When it is fine
---------------
Gradients that are assigned by hand (`p.grad = ...`) count as new. A single such step (a scheduler's warm-up trick) is
not reported, nor are steps whose closure computes the gradients. An optimizer that finds none because the backward went
to another part of the model (one optimizer per head or expert, all stepped each time) is only reported if it never
finds any.
"""

from __future__ import annotations

from typing import Final, final

from trueloop.event import Backward, RunEnded, Stepped
from trueloop.finding import Finding, Severity
from trueloop.rules.rule import Findings, Rule

__all__ = ["StepWithoutGradient"]

ENOUGH: Final = 2
"""One step without a gradient is a known trick to quiet a scheduler; two are a habit."""


@final
class StepWithoutGradient(Rule):
    code = "GRD103"
    name = "step-without-gradient"
    severity = Severity.ERROR
    not_applicable = "no optimizer step was seen"
    explained_by = ("loss-detached-from-parameters", "optimizer-holds-old-parameters")

    def __init__(self) -> None:
        self._steps: dict[int, int] = {}
        self._bare: dict[tuple[int, str], int] = {}
        self._fed: set[int] = set()
        """Optimizers that have found new gradients."""
        self._backwards = 0
        self._seen: dict[int, int] = {}
        """Backwards there had been at each optimizer's last step."""
        self._idle: dict[int, Stepped] = {}
        """The latest steps that found nothing, though there was a backward."""

    def on_backward(self, event: Backward) -> None:
        self._backwards += 1

    def on_stepped(self, event: Stepped) -> Findings:
        steps = self._steps[event.optimizer] = self._steps.get(event.optimizer, 0) + 1
        passed_by = self._seen.get(event.optimizer, 0) < self._backwards
        self._seen[event.optimizer] = self._backwards
        if event.gradients == "new":
            self._fed.add(event.optimizer)
        if event.gradients not in ("same", "none") or event.closure:
            return
        key = (event.optimizer, event.gradients)
        bare = self._bare[key] = self._bare.get(key, 0) + 1
        if bare < ENOUGH:
            return
        if event.gradients == "none" and passed_by:
            self._idle[event.optimizer] = event
            return
        yield self._say(event, bare, steps)

    def on_run_ended(self, end: RunEnded) -> Findings:
        for optimizer, event in self._idle.items():
            if optimizer not in self._fed:
                yield self._say(event, self._bare[optimizer, "none"], self._steps[optimizer])

    def _say(self, event: Stepped, bare: int, steps: int) -> Finding:
        found = "the gradients of its last step, unchanged" if event.gradients == "same" else "no gradient at all"
        return self.finding(
            event,
            f"{event.name} stepped {bare} times and found {found}: no backward had reached its parameters in between.",
            fix="Call backward before each step, and step once for it.",
            evidence={"optimizer": event.name, "found": event.gradients, "such_steps": bare, "steps": steps},
        )
