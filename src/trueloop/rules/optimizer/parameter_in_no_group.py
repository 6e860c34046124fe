"""OPT101 parameter-in-no-group: parameters get gradients, and no optimizer holds them.

What it sees
------------
After some steps, parameters of a model require a gradient and have received one, no living optimizer holds them, nobody
writes to them by hand, and other parameters of the same model are being optimised.

Why it hurts
------------
The gradients are computed and thrown away: these layers keep their random start while the others train around them. A
layer that was added after the optimizer was built, or a parameter group by name that missed some names, does this
without a word.

Evidence
--------
The names of the parameters, how many numbers they hold, and how many parameters are trained.

Use instead
-----------
Build the optimizer when the model is complete, over all of it:

    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

Parameters that are not to be trained: `p.requires_grad_(False)`, which also saves the time of their gradients.

When it is fine
---------------
A model none of whose parameters is in an optimizer is not judged (attacks, prompts, styles: there the optimizer holds
the input), nor are parameters of parts in eval mode and those that are updated by hand. If most of the model is left
out it is a warning: then only a head is meant to be trained, and the rest should be frozen.
"""

from __future__ import annotations

from typing import Final, final

from trueloop.event import ParametersAccounted, RunEnded
from trueloop.finding import Finding, Severity
from trueloop.rules.rule import Findings, Rule

__all__ = ["ParameterInNoGroup"]

ENOUGH: Final = 5
"""Steps after which every optimizer that a script builds for its loop is there."""
AT_LEAST: Final = 3
"""Steps of a run that ends earlier."""


@final
class ParameterInNoGroup(Rule):
    code = "OPT101"
    name = "parameter-in-no-group"
    severity = Severity.ERROR
    not_applicable = "no model was trained by an optimizer for some steps"
    explained_by = ("optimizer-holds-old-parameters",)

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

    def _judge(self, event: ParametersAccounted) -> list[Finding]:
        forgotten = [
            account for account in event.accounts if account.trainable and account.has_gradient and not account.held
        ]
        if not forgotten or not event.complete or event.orphans:
            return []
        names = [account.name for account in forgotten]
        shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        numbers = sum(account.size for account in forgotten)
        mostly = len(forgotten) > event.complete
        message = (
            f"{shown} of {event.name} ({numbers:,} numbers) received gradients over {event.steps} steps, "
            f"and no optimizer holds {'it' if len(names) == 1 else 'them'}."
        )
        return [
            self.finding(
                event,
                message,
                fix="Freeze what is not to be trained with requires_grad_(False), or hand it to the optimizer too."
                if mostly
                else "Hand these parameters to the optimizer: build it over model.parameters(), after the model is complete.",
                evidence={
                    "model": event.name,
                    "parameters": names[:16],
                    "numbers": numbers,
                    "steps": event.steps,
                    "trained": event.complete,
                },
                place=event.optimizer_place,
                severity=Severity.WARNING if mostly else Severity.ERROR,
            )
        ]
