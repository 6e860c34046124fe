"""What every claim has, whatever it is about: a name, its healthy result, likely causes, three results. No torch."""

from collections.abc import Mapping
from typing import ClassVar

from trueloop.event import Place
from trueloop.results.proof import Cause, Proof

__all__ = ["ClaimBase", "Evidence"]

Evidence = Mapping[str, object]


class ClaimBase:
    """One file each. The first line of its docstring is `name: the claim, as a sentence.`"""

    name: ClassVar[str]
    healthy: ClassVar[str]  # the result where it holds: 'the loss falls below 1 % of the initial loss'
    needs_reference: ClassVar[bool] = False  # can it be tested only beside a reference (--against)?
    causes: ClassVar[tuple[Cause, ...]]  # why it may fail, most likely first, each with the cheapest check

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
