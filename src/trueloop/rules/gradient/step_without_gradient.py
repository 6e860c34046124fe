"""GRD103 step-without-gradient: the optimizer steps without new gradients.

What it sees
------------
At least twice, an optimizer stepped with exactly the gradients of its last step (no backward in between), or none of
its parameters had a gradient and no backward had computed one.

Why it hurts
------------
A repeated step uses an outdated gradient a second time, which silently doubles the learning rate. A step without any
gradient does nothing, so the parameters are never trained.

Evidence
--------
The optimizer, how many of its steps reused old gradients or had none, and the total number of steps.

Use instead
-----------
    loss.backward()
    optimizer.step()     # once per backward, or once per accumulation window

When it is fine
---------------
Gradients that you assign yourself (`p.grad = ...`) count as new. A single step without gradients (a known trick to
silence a scheduler warning) is not reported, nor are steps whose closure computes the gradients. With one optimizer per
head or expert, all stepped each time, an optimizer without gradients is reported only if it never gets any.
"""

from typing import Final

from trueloop.event import Backward, RunEnded, Stepped
from trueloop.rules.rule import Finding, Findings, Rule, Severity

__all__ = ["StepWithoutGradient"]

ENOUGH: Final = 2  # One step without a gradient is a known trick to silence a scheduler warning


class StepWithoutGradient(Rule, code="GRD103", severity=Severity.ERROR):
    not_applicable = "no optimizer step was seen"
    explained_by = ("loss-detached-from-parameters", "optimizer-holds-old-parameters")

    def __init__(self) -> None:
        self._with_gradients: set[int] = set()
        self._backwards = 0
        self._backwards_at_step: dict[int, int] = {}  # By optimizer: the number of backwards before its last step
        self._idle: dict[int, tuple[Stepped, int, int]] = {}
        """By optimizer: its latest step without gradients although a backward ran, and the counts so far."""

    def on_backward(self, event: Backward) -> None:
        self._backwards += 1

    def on_stepped(self, event: Stepped) -> Findings:
        steps = self.count(event.optimizer)
        backward_ran = self._backwards_at_step.get(event.optimizer, 0) < self._backwards
        self._backwards_at_step[event.optimizer] = self._backwards
        if event.gradients == "new":
            self._with_gradients.add(event.optimizer)
        if event.gradients not in ("same", "none") or event.closure:
            return
        without = self.count(event.optimizer, event.gradients)
        if without < ENOUGH:
            return
        if event.gradients == "none" and backward_ran:
            self._idle[event.optimizer] = (event, without, steps)
            return
        yield self._report(event, without, steps)

    def on_run_ended(self, end: RunEnded) -> Findings:
        for optimizer, idle in self._idle.items():
            if optimizer not in self._with_gradients:
                yield self._report(*idle)

    def _report(self, event: Stepped, without: int, steps: int) -> Finding:
        how = "with unchanged gradients of the previous step" if event.gradients == "same" else "without any gradient"
        return self.finding(
            event,
            f"{event.name} stepped {without} times {how}: no `backward()` reached its parameters before `step()`.",
            fix="Call `loss.backward()` before each `optimizer.step()`, and step once per backward.",
            evidence={"optimizer": event.name, "gradients": event.gradients, "such_steps": without, "steps": steps},
        )
