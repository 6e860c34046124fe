"""OPT101 parameters-not-in-optimizer: parameters get gradients, but no optimizer holds them.

What it sees
------------
After some steps, parameters of a model require a gradient and got one, no live optimizer holds them, no code writes to
them, and other parameters of the same model are optimized. Parameters that are unfrozen later in the run are checked
again: an optimizer that was built over the trainable ones does not hold them.

Why it hurts
------------
Their gradients are computed and dropped: these layers keep their random initialization while the others train around
them. Typical causes are a layer added after the optimizer was created, and parameter groups by name that miss some.

Evidence
--------
The names of the parameters, how many values they have, and how many parameters are trained.

Use instead
-----------
Create the optimizer when the model is complete:

    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

For parameters that should not be trained: `p.requires_grad_(False)`, which also saves the time of their gradients.

When it is fine
---------------
Not checked: models without any parameter in an optimizer (adversarial attacks, prompt tuning, style transfer),
parameters in eval mode, and parameters that your code updates. If most of the model is missing it is a warning: then
only a head is trained, and the rest should be frozen.
"""

from typing import Final

from trueloop.event import ParametersAccounted, RunEnded
from trueloop.rules.rule import Findings, Rule, Severity, facts, plural

__all__ = ["ParametersNotInOptimizer"]

ENOUGH: Final = 5  # Steps after which a script has created all its optimizers
AT_LEAST: Final = 3  # Steps needed in a run that ends earlier


class ParametersNotInOptimizer(Rule, code="OPT101", severity=Severity.ERROR):
    not_applicable = "no model was trained by an optimizer for some steps"
    explained_by = ("optimizer-holds-old-parameters",)

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
            if account.steps >= AT_LEAST:
                yield from self._check(account)

    def _check(self, event: ParametersAccounted) -> Findings:
        missing = [one for one in event.accounts if one.trainable and one.has_gradient and not one.held]
        if not missing or not event.complete or event.orphans:
            return
        names = [account.name for account in missing]
        shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        values = sum(account.size for account in missing)
        mostly = len(missing) > event.complete and not event.unfrozen
        how = "were unfrozen and got gradients" if event.unfrozen else "got gradients"
        fix = "Create the optimizer over `model.parameters()` after the model is complete."
        if event.unfrozen:
            fix = "After unfreezing, build the optimizer again or call `optimizer.add_param_group(...)`."
        if mostly:
            fix = "Freeze parameters that should not train with `requires_grad_(False)`, or add them to the optimizer."
        yield self.finding(
            event,
            f"{shown} of {event.name} ({values:,} values) {how} in {plural(event.steps, 'step')}, but no "
            f"optimizer holds {'it' if len(names) == 1 else 'them'}.",
            fix=fix,
            evidence=facts(
                event, "model=name parameters values steps trained=complete", parameters=names[:16], values=values
            ),
            place=event.optimizer_place,
            severity=Severity.WARNING if mostly else Severity.ERROR,
        )
