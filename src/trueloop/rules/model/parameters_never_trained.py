"""MDL102 parameters-never-trained: an optimizer holds parameters that never get a gradient.

What it sees
------------
After ten steps (or at the end of a shorter run of five or more), parameters that require a gradient and are in an
optimizer have never had one, while others of the model have. Either the layer never ran, or it ran and nothing that the
loss is made of came out of it.

Why it hurts
------------
A layer that was meant to learn does not: a forgotten line in the forward, an output that no loss uses, an attribute
that was replaced by another. What is left is a random layer, or dead weight in every checkpoint; in distributed
training it makes the run hang or fail.

Evidence
--------
The parameters, how many numbers they hold, whether their layer ran, and the steps taken.

Use instead
-----------
Use the layer in the forward, add its loss, or delete it. If it is to stay as it is: `layer.requires_grad_(False)`.

When it is fine
---------------
Not reported: frozen parameters, layers run under no_grad, experts of a mixture (a sibling of the same class in the same
ModuleList does train), parameters that are written to by hand (moving averages) or whose gradients are taken away for
the first steps (`p.grad = None`), and layers that a library's class owns.
"""

from __future__ import annotations

from typing import Final, final

from trueloop.event import ParameterAccount, ParametersAccounted, Place, RunEnded
from trueloop.finding import Finding, Severity
from trueloop.rules.rule import Findings, Rule

__all__ = ["ParametersNeverTrained"]

ENOUGH: Final = 10
"""Steps after which a part that takes turns with others has had one."""
AT_LEAST: Final = 5
"""Steps of a run that ends earlier."""


@final
class ParametersNeverTrained(Rule):
    code = "MDL102"
    name = "parameters-never-trained"
    severity = Severity.WARNING
    not_applicable = "no model was trained by an optimizer for some steps"
    explained_by = ("optimizer-holds-old-parameters", "loss-detached-from-parameters")

    def __init__(self) -> None:
        self._early: dict[int, ParametersAccounted] = {}

    def on_parameters_accounted(self, event: ParametersAccounted) -> Findings:
        if event.steps < ENOUGH:
            self._early[event.model] = event
            return
        self._early.pop(event.model, None)
        yield from self._judge(event)

    def on_run_ended(self, event: RunEnded) -> Findings:
        for account in self._early.values():
            if account.steps >= AT_LEAST:
                yield from self._judge(account)

    def _judge(self, event: ParametersAccounted) -> Findings:
        if not event.complete:
            return
        by_line: dict[Place, list[ParameterAccount]] = {}
        for account in event.accounts:
            unused = not account.ran or (account.ran_with_graph and not account.cuts)
            if (
                account.trainable
                and account.held
                and not account.has_gradient
                and unused
                and account.defined is not None
            ):
                by_line.setdefault(account.defined, []).append(account)
        for place, group in by_line.items():
            yield self._said(event, place, group)

    def _said(self, event: ParametersAccounted, place: Place, group: list[ParameterAccount]) -> Finding:
        names = [account.name for account in group]
        shown = ", ".join(names[:2]) + (f" and {len(names) - 2} more" if len(names) > 2 else "")
        numbers = sum(account.size for account in group)
        ran = any(account.ran for account in group)
        why = "the layer ran, but no loss uses what came out" if ran else "the forward never used the layer"
        return self.finding(
            event,
            f"{shown} of {event.name} ({numbers:,} numbers) are in an optimizer and had no gradient in {event.steps} steps: {why}.",
            fix="Use it in the forward and in the loss, delete it, or freeze it with requires_grad_(False).",
            evidence={
                "model": event.name,
                "parameters": names[:16],
                "numbers": numbers,
                "steps": event.steps,
                "ran": ran,
            },
            place=place,
        )
