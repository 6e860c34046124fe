"""optimizer-holds-every-parameter: every weight that can be trained is in the optimizer, and so can move.

A layer that was made after the optimizer, kept in a plain list, or replaced by a fresh head stays as it was drawn, and
nothing says so.
"""

from __future__ import annotations

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
    healthy = "all parameters that require a gradient are in one of the optimizer's groups"
    causes: ClassVar[tuple[Cause, ...]] = (
        Cause(
            "a layer was made or replaced after the optimizer was built",
            "build the optimizer last, from model.parameters()",
        ),
        Cause(
            "only a part's parameters were handed over",
            "compare the lengths of model.parameters() and of the optimizer's groups",
        ),
        Cause("it is meant to stay as it is", "say so: parameter.requires_grad_(False), and it no longer counts"),
    )

    def of_recipe(self, subject: RecipeSubject) -> Proof:
        parts = subject.parts()
        held = {id(parameter) for group in parts.optimizer.param_groups for parameter in group["params"]}
        trainable = {name: parameter for name, parameter in parts.model.named_parameters() if parameter.requires_grad}
        missing = {name: parameter.numel() for name, parameter in trainable.items() if id(parameter) not in held}
        numbers = sum(parameter.numel() for parameter in trainable.values())
        return self._judged(len(trainable), numbers, missing)

    def of_script(self, subject: ScriptSubject) -> Proof:
        told = {event.model: event for event in subject.checked.of(ParametersAccounted)}  # the latest of each model
        if not told:
            return self.unproved("no model was trained by an optimizer for long enough in this run")
        accounts = [
            (event, account)
            for event in told.values()
            for account in event.accounts
            if account.trainable and not account.held
        ]
        missing = {f"{event.name}.{account.name}": account.size for event, account in accounts}
        proof = self._judged(sum(event.complete + len(event.accounts) for event in told.values()), None, missing)
        if not accounts:
            return proof
        event, account = accounts[0]
        return replace(proof, place=event.optimizer_place or account.defined)

    def _judged(self, trainable: int, numbers: int | None, missing: dict[str, int]) -> Proof:
        if not missing:
            size = f", {numbers:,} numbers" if numbers is not None else ""
            return self.holds(
                f"the optimizer holds {trainable} of {trainable} trainable parameters{size}", {"trainable": trainable}
            )
        return self.fails(
            f"the optimizer holds {trainable - len(missing)} of {trainable} trainable parameters; "
            f"{', '.join(list(missing)[:3])}{' ...' if len(missing) > 3 else ''} will never move",
            {"trainable": trainable, "missing": missing},
        )
