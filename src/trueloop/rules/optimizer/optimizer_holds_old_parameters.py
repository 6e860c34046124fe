"""OPT102 optimizer-holds-old-parameters: the optimizer moves tensors that are no longer the model's.

What it sees
------------
An optimizer of the model holds tensors that belong to no module that was called and that never get a gradient, while
the model has parameters with gradients that no optimizer holds: the ones that took their place.

Why it hurts
------------
An optimizer keeps the tensors it was given. When a head is replaced, or the model is built, copied or loaded anew after
that, the new parameters are never updated: the step moves the old ones, which nobody computes with.

Evidence
--------
How many of the optimizer's tensors are orphans, their sizes, and the parameters that nobody holds.

Use instead
-----------
Change the model first, then build the optimizer:

    model.fc = nn.Linear(512, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

When it is fine
---------------
Tensors of one's own in an optimizer (a latent code, an image) are not reported as long as they get gradients, nor are
models that have not been called yet.
"""

from __future__ import annotations

from typing import Final, final

from trueloop.event import ParametersAccounted, RunEnded
from trueloop.finding import Finding, Severity
from trueloop.rules.rule import Findings, Rule

__all__ = ["OptimizerHoldsOldParameters"]

ENOUGH: Final = 5
"""Steps after which a tensor without a gradient is not just waiting for its turn."""


@final
class OptimizerHoldsOldParameters(Rule):
    code = "OPT102"
    name = "optimizer-holds-old-parameters"
    severity = Severity.ERROR
    not_applicable = "no model was trained by an optimizer for some steps"

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
            yield from self._judge(account)

    def _judge(self, event: ParametersAccounted) -> list[Finding]:
        new = [account for account in event.accounts if account.trainable and account.has_gradient and not account.held]
        if not event.orphans or not new:
            return []
        names = [account.name for account in new]
        shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        return [
            self.finding(
                event,
                f"The optimizer holds {event.orphans} tensors that are not {event.name}'s any more, and nobody holds {shown}: "
                f"after {event.steps} steps these have never been updated.",
                fix="Build the optimizer after the last change of the model, or add the new parameters with add_param_group.",
                evidence={
                    "model": event.name,
                    "orphans": event.orphans,
                    "orphan_sizes": list(event.orphan_sizes),
                    "not_held": names[:16],
                    "steps": event.steps,
                },
                place=event.optimizer_place,
            )
        ]
