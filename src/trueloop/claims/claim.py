"""A claim: a sentence about a training that can be tried, what is seen when it holds, and what to look at when it does
not."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar, Final

from trueloop.claims.subject import RecipeSubject, ScriptSubject
from trueloop.event import Place
from trueloop.results.proof import Cause, Proof

__all__ = ["Claim"]

NEEDS_A_RECIPE: Final = "a script does not hand out its parts: this claim can be tried on a recipe"


class Claim(ABC):
    """One file each. Its docstring's first line is `name: the claim, as a sentence.`"""

    name: ClassVar[str]
    healthy: ClassVar[str]
    """What is seen where it holds: 'the loss falls below 1 % of where it began'."""
    causes: ClassVar[tuple[Cause, ...]]
    """Why it may fail, the likeliest first, each with the cheapest check."""

    @abstractmethod
    def of_recipe(self, subject: RecipeSubject) -> Proof:
        """Tried on a recipe: every part is at hand."""

    def of_script(self, subject: ScriptSubject) -> Proof:
        """Tried on somebody's script, from outside."""
        return self.unproved(NEEDS_A_RECIPE)

    @classmethod
    def fits_scripts(cls) -> bool:
        """Can it be tried on somebody's script at all?"""
        return cls.of_script is not Claim.of_script

    # -- the three answers --

    def holds(self, measured: str, evidence: Mapping[str, object]) -> Proof:
        return Proof(self.name, "holds", measured, self.healthy, evidence)

    def fails(
        self,
        measured: str,
        evidence: Mapping[str, object],
        causes: tuple[Cause, ...] | None = None,
        place: Place | None = None,
    ) -> Proof:
        """`causes`: where what was measured says which they are; else all that the claim knows."""
        return Proof(
            self.name, "fails", measured, self.healthy, evidence, self.causes if causes is None else causes, place
        )

    def unproved(self, because: str, evidence: Mapping[str, object] | None = None) -> Proof:
        """It could not be tried; because: what was missing, and what to type where that helps."""
        return Proof(self.name, "unproved", because, self.healthy, evidence or {})
