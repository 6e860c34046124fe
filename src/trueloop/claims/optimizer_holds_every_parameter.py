"""optimizer-holds-every-parameter: every trainable weight is in the optimizer, so that it can change.

A layer that was created after the optimizer, kept in a plain list, or replaced by a new head keeps its initial weights,
without an error.
"""

from dataclasses import replace
from typing import ClassVar, final

from trueloop.claims.claim import Claim
from trueloop.claims.subject import RecipeSubject, ScriptSubject
from trueloop.event import ParametersAccounted
from trueloop.results.proof import Cause, Proof

__all__ = ["OptimizerHoldsEveryParameter"]


@final
class OptimizerHoldsEveryParameter(Claim):
    name = "optimizer-holds-every-parameter"
    tests_own_step = True
    healthy = "all parameters with requires_grad=True are in a parameter group of the optimizer"
    causes: ClassVar[tuple[Cause, ...]] = (
        Cause("a layer was created or replaced after the optimizer", "build it last, from `model.parameters()`"),
        Cause("only some parameters were passed to the optimizer", "compare `model.parameters()` with its groups"),
        Cause("the layer is meant to stay frozen", "set `parameter.requires_grad_(False)`, and it no longer counts"),
    )

    def try_recipe(self, subject: RecipeSubject) -> Proof:
        parts = subject.parts()
        held = {id(parameter) for group in parts.optimizer.param_groups for parameter in group["params"]}
        trainable = {name: parameter for name, parameter in parts.model.named_parameters() if parameter.requires_grad}
        missing = {name: parameter.numel() for name, parameter in trainable.items() if id(parameter) not in held}
        elements = sum(parameter.numel() for parameter in trainable.values())
        return self._result(len(trainable), f", {elements:,} elements", missing)

    def try_script(self, subject: ScriptSubject) -> Proof:
        events = {event.model: event for event in subject.checked.of(ParametersAccounted)}  # the latest of each model
        if not events:
            return self.unproved("no model was trained with an optimizer for long enough in this run")
        accounts = [(event, account) for event in events.values() for account in event.accounts]
        missing = [(event, account) for event, account in accounts if account.trainable and not account.held]
        sizes = {f"{event.name}.{account.name}": account.size for event, account in missing}
        proof = self._result(sum(event.complete + len(event.accounts) for event in events.values()), "", sizes)
        if not missing:
            return proof
        event, account = missing[0]
        return replace(proof, place=event.optimizer_place or account.defined)

    def _result(self, trainable: int, size: str, missing: dict[str, int]) -> Proof:
        held = f"the optimizer holds {trainable - len(missing)} of {trainable} trainable parameters"
        if not missing:
            return self.holds(f"{held}{size}", {"trainable": trainable})
        shown = f"{', '.join(list(missing)[:3])}{' ...' if len(missing) > 3 else ''}"
        return self.fails(f"{held}; {shown} will never change", {"trainable": trainable, "missing": missing})
