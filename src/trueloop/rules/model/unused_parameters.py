"""MDL102 unused-parameters: an optimizer holds parameters that never get a gradient.

What it sees
------------
After ten steps (or at the end of a run of at least five), parameters that require a gradient and are in an optimizer
never had one, while other parameters of the model did. Either their layer never ran, or the loss does not use its
output.

Why it hurts
------------
A layer that should learn does not: a forgotten line in the forward, an output that no loss uses, an overwritten
attribute. The layer stays random and takes space in every checkpoint; with DistributedDataParallel the run hangs or
fails.

Evidence
--------
The parameters, how many values they have, whether their layer ran, and the number of steps.

Use instead
-----------
Use the layer in the forward, add its loss, or delete it. To keep it unchanged: `layer.requires_grad_(False)`.

When it is fine
---------------
Not reported: frozen parameters, layers under `no_grad`, experts of a mixture (another expert in the same ModuleList
trains), parameters that your code writes to (moving averages) or whose gradients it removes in the first steps
(`p.grad = None`), and layers that a library's class owns.
"""

from typing import Final

from trueloop.event import ParameterAccount, ParametersAccounted, Place, RunEnded
from trueloop.rules.rule import Finding, Findings, Rule, Severity, facts

__all__ = ["UnusedParameters"]

ENOUGH: Final = 10  # Steps after which layers that train in turns have all been used
AT_LEAST: Final = 5  # Steps needed in a run that ends earlier


class UnusedParameters(Rule, code="MDL102", severity=Severity.WARNING):
    not_applicable = "no model was trained by an optimizer for some steps"
    explained_by = ("optimizer-holds-old-parameters", "loss-detached-from-parameters", "loss-dropped")

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
        if not event.complete:
            return
        by_line: dict[Place, list[ParameterAccount]] = {}
        for account in event.accounts:
            unused = not account.ran or (account.ran_with_graph and not account.cuts)
            idle = account.trainable and account.held and not account.has_gradient
            if idle and unused and account.defined is not None:
                by_line.setdefault(account.defined, []).append(account)
        for place, group in by_line.items():
            yield self._report(event, place, group)

    def _report(self, event: ParametersAccounted, place: Place, group: list[ParameterAccount]) -> Finding:
        names = [account.name for account in group]
        shown = ", ".join(names[:2]) + (f" and {len(names) - 2} more" if len(names) > 2 else "")
        values = sum(account.size for account in group)
        ran = any(account.ran for account in group)
        why = "the layer ran, but no loss uses its output" if ran else "the forward never used the layer"
        return self.finding(
            event,
            f"{shown} of {event.name} ({values:,} values) got no gradient in {event.steps} steps, although an "
            f"optimizer holds them: {why}.",
            fix="Use the layer in the forward and the loss, delete it, or freeze it with `requires_grad_(False)`.",
            evidence=facts(event, "model=name parameters values steps", parameters=names[:16], values=values, ran=ran),
            place=place,
        )
