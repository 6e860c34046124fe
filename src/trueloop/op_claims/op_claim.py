"""A claim about an operation, and the search for the smallest input that breaks it."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from trueloop.op_claims.difference import Difference
from trueloop.op_claims.op_subject import NotTaken, OpSubject
from trueloop.op_claims.sample import Sample
from trueloop.op_claims.shrink import shrink
from trueloop.results.claim_base import ClaimBase
from trueloop.results.proof import Cause, Proof

__all__ = ["Broken", "OpClaim", "Trial", "search"]

Breaks = Callable[[Sample], Difference | None]
"""How a sample breaks the claim; None: it does not. May raise NotTaken: then the sample says nothing."""


@dataclass(frozen=True)
class Trial:
    label: str  # what is special about these inputs: 'transposed'; may be empty
    sample: Sample
    breaks: Breaks
    cause: Cause | None = None  # the likely cause, if this trial fails


@dataclass(frozen=True)
class Broken:
    trial: Trial
    sample: Sample  # the smallest one
    difference: Difference


def search(trials: Iterable[Trial]) -> tuple[Broken | None, int]:
    """The first trial that breaks, shrunk; and the number of trials that said something."""
    said = 0
    for trial in trials:
        quiet = _quiet(trial.breaks)
        try:
            found = trial.breaks(trial.sample)
        except NotTaken:
            continue
        said += 1
        if found is not None:
            smallest = shrink(trial.sample, quiet)
            return Broken(trial, smallest, quiet(smallest) or found), said
    return None, said


def _quiet(breaks: Breaks) -> Breaks:
    def attempt(sample: Sample) -> Difference | None:
        try:
            return breaks(sample)
        except NotTaken:
            return None

    return attempt


class OpClaim(ClaimBase, ABC):
    @abstractmethod
    def try_op(self, subject: OpSubject) -> Proof:
        """Test it. May raise NotTaken if the operation does not take its own samples."""

    def result(self, subject: OpSubject, trials: Iterable[Trial], holds: Callable[[int], str], nothing: str) -> Proof:
        """`holds`: what was measured, given the number of trials; `nothing`: why no trial said something."""
        broken, said = search(trials)
        if broken is not None:
            return self.broken(subject, broken)
        return self.holds(holds(said), {"trials": said, "inputs": subject.source}) if said else self.unproved(nothing)

    def broken(self, subject: OpSubject, broken: Broken) -> Proof:
        sample, trial = broken.sample, broken.trial
        label = f" {trial.label}" if trial.label else ""
        values = {"values": sample.values()} if sample.values() else {}
        evidence = {"smallest input": f"{sample.describe()}{label}", **values, **broken.difference.evidence}
        measured = f"{broken.difference.what}, for {sample.describe()}{label}"
        causes = self.likely_first(trial.cause) if trial.cause else self.causes
        return self.fails(measured, evidence, causes, subject.place)
