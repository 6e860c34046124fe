"""A claim: a sentence about a training that can be tested, its healthy result, and the likely causes of a failure."""

from abc import ABC, abstractmethod
from typing import ClassVar

from trueloop.claims.subject import RecipeSubject, ScriptSubject
from trueloop.results.claim_base import ClaimBase
from trueloop.results.proof import Proof

__all__ = ["Claim"]


class Claim(ClaimBase, ABC):
    """About a training: a recipe, a run or a script."""

    tests_own_step: ClassVar[bool] = False  # can it test a recipe whose step, and so whose losses, are its own?

    @abstractmethod
    def try_recipe(self, subject: RecipeSubject) -> Proof:
        """Test it on a recipe, whose parts are all accessible."""

    def try_script(self, subject: ScriptSubject) -> Proof:
        """Test it on an unmodified script."""
        return self.unproved("this claim needs a recipe: a script does not give access to its model and data")

    @classmethod
    def supports_scripts(cls) -> bool:
        return cls.try_script is not Claim.try_script
