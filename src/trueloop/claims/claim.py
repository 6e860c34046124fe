"""A claim: a sentence about a training that can be tested, its healthy result, and the likely causes of a failure."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

from trueloop.claims.subject import RecipeSubject, ScriptSubject
from trueloop.event import Place
from trueloop.results.proof import Cause, Proof

__all__ = ["Claim"]

Evidence = Mapping[str, object]


class Claim(ABC):
    """One file each. The first line of its docstring is `name: the claim, as a sentence.`"""

    name: ClassVar[str]
    healthy: ClassVar[str]  # the result where it holds: 'the loss falls below 1 % of the initial loss'
    tests_own_step: ClassVar[bool] = False  # can it test a recipe whose step, and so whose losses, are its own?
    causes: ClassVar[tuple[Cause, ...]]  # why it may fail, most likely first, each with the cheapest check

    @abstractmethod
    def try_recipe(self, subject: RecipeSubject) -> Proof:
        """Test it on a recipe, whose parts are all accessible."""

    def try_script(self, subject: ScriptSubject) -> Proof:
        """Test it on an unmodified script."""
        return self.unproved("this claim needs a recipe: a script does not give access to its model and data")

    @classmethod
    def supports_scripts(cls) -> bool:
        return cls.try_script is not Claim.try_script

    # -- the three results --

    def holds(self, measured: str, evidence: Evidence) -> Proof:
        return Proof(self.name, "holds", measured, self.healthy, evidence)

    def fails(
        self, measured: str, evidence: Evidence, causes: tuple[Cause, ...] | None = None, place: Place | None = None
    ) -> Proof:
        """`causes`: the causes that fit the measurement; None: all causes of the claim."""
        return Proof(self.name, "fails", measured, self.healthy, evidence, causes or self.causes, place)

    def unproved(self, reason: str, evidence: Evidence | None = None) -> Proof:
        """It could not be tested. `reason`: what was missing, and what to type where that helps."""
        return Proof(self.name, "unproved", reason, self.healthy, evidence or {})

    def likely_first(self, *likely: Cause) -> tuple[Cause, ...]:
        """All causes of the claim, these first."""
        return (*likely, *(cause for cause in self.causes if cause not in likely))
