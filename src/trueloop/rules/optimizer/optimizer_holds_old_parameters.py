"""OPT102 optimizer-holds-old-parameters: the optimizer updates tensors that no longer belong to the model.

What it sees
------------
An optimizer of the model holds tensors that belong to no module that was called and that never get a gradient, while
the model has parameters with gradients that no optimizer holds: their replacements. Models are checked in their first
steps, and again when parameters appear later (a new head for a second stage).

Why it hurts
------------
An optimizer keeps the tensors it was created with. If the model is changed, copied or loaded again afterwards, its new
parameters are never updated: `step()` updates the old tensors, which nothing uses.

Evidence
--------
How many of the optimizer's tensors are stale, their sizes, and the parameters that no optimizer holds.

Use instead
-----------
Change the model first, then create the optimizer:

    model.fc = nn.Linear(512, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

When it is fine
---------------
Not reported: extra tensors in an optimizer (a latent code, an image) that get gradients, and models that have not been
called yet.
"""

from typing import Final

from trueloop.event import ParametersAccounted, RunEnded
from trueloop.rules.rule import Findings, Rule, Severity, facts, plural

__all__ = ["OptimizerHoldsOldParameters"]

ENOUGH: Final = 5  # Steps after which a tensor without a gradient is not just used in turns


class OptimizerHoldsOldParameters(Rule, code="OPT102", severity=Severity.ERROR):
    not_applicable = "no model was trained by an optimizer for some steps"

    def __init__(self) -> None:
        self._early: dict[int, ParametersAccounted] = {}

    def on_parameters_accounted(self, event: ParametersAccounted) -> Findings:
        if event.steps < ENOUGH:
            self._early[event.model] = event
            return
        self._early.pop(event.model, None)
        yield from self._check(event)

    def on_run_ended(self, event: RunEnded) -> Findings:
        for account in self._early.values():
            yield from self._check(account)

    def _check(self, event: ParametersAccounted) -> Findings:
        new = [account for account in event.accounts if account.trainable and account.has_gradient and not account.held]
        if not event.orphans or not new:
            return
        names = [account.name for account in new]
        shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        yield self.finding(
            event,
            f"The optimizer holds {plural(event.orphans, 'tensor')} that {event.name} no longer uses. No optimizer "
            f"holds {shown}: never updated in {plural(event.steps, 'step')}.",
            fix="Create the optimizer after the last change of the model, or call `optimizer.add_param_group(...)`.",
            evidence=facts(
                event,
                "model=name stale_tensors=orphans stale_sizes=orphan_sizes not_in_optimizer steps",
                not_in_optimizer=names[:16],
            ),
            place=event.optimizer_place,
        )
