"""PAR103 parameters-drift-apart: ranks that should hold copies of one model hold different weights.

What it sees
------------
A few numbers of each weight, on each rank, before some of the steps. The ranks exchange gradients (by
DistributedDataParallel, or by calling all_reduce on them), so their weights must be the same, and are not: in every
look since the first difference, the last two at least.

Why it hurts
------------
The exchanged gradients are then computed at different points and applied to different weights: each rank trains another
model, none of them on all of the data. The one that is saved or evaluated is the first rank's, and the loss it prints
looks as it should.

Evidence
--------
The weight that differs most, its value on both ranks, the relative difference at each step that was looked at, and
whether the weights differed before the first step.

Use instead
-----------
    model = DistributedDataParallel(model)      # makes the weights equal, and keeps them so

Where gradients are exchanged by hand, start from equal weights: `for p in model.parameters(): dist.broadcast(p.data,
src=0)`, and exchange the gradients of all parameters before every step.

When it is fine
---------------
Ranks that hold parts of one model (FSDP, DTensor, halves of a layer, experts), ranks that average their weights from
time to time (local SGD), and ranks that exchange no gradients at all (a model each) are not reported. Differences in
the last digits, from machines that are not alike, are not either.
"""

from __future__ import annotations

from itertools import combinations
from typing import Final, final

from trueloop.event import GradientsShared, ParametersSampled, RunEnded, SampledParameter
from trueloop.event.thresholds import PARAMETER_DRIFT
from trueloop.finding import Finding, Severity
from trueloop.rules.rule import Findings, Rule

__all__ = ["ParametersDriftApart"]

LOOKS: Final = 2
"""Looks in a row, up to the last one, that must show a difference."""

_Pair = tuple[SampledParameter, SampledParameter]


@final
class ParametersDriftApart(Rule):
    code = "PAR103"
    name = "parameters-drift-apart"
    severity = Severity.ERROR
    not_applicable = "the run had one rank"
    explained_by = ("wrapper-bypassed",)

    def __init__(self) -> None:
        self._shared: dict[int, GradientsShared] = {}
        self._sampled: dict[tuple[int, int], dict[int, ParametersSampled]] = {}
        """(rank, optimizer) -> steps taken before -> what was seen."""

    def why_not_checked(self) -> str:
        if len(self._shared) < 2:
            return self.not_applicable
        return "" if any(shared.by for shared in self._shared.values()) else "no gradients were exchanged between ranks"

    def on_gradients_shared(self, event: GradientsShared) -> None:
        self._shared[event.rank] = event

    def on_parameters_sampled(self, event: ParametersSampled) -> None:
        self._sampled.setdefault((event.rank, event.optimizer), {})[event.index] = event

    def on_run_ended(self, event: RunEnded) -> Findings:
        if any(
            shared.sharded or shared.averaged or shared.swapped or not shared.by for shared in self._shared.values()
        ):
            return
        for one, other in combinations(sorted(self._shared), 2):
            for rank, optimizer in sorted(self._sampled):
                if rank == one and other in self._shared[one].members:
                    mine, theirs = self._sampled[one, optimizer], self._sampled.get((other, optimizer), {})
                    if found := self._judged(mine, theirs, other):
                        yield found
                        return

    def _judged(
        self, mine: dict[int, ParametersSampled], theirs: dict[int, ParametersSampled], other: int
    ) -> Finding | None:
        looks = sorted(mine.keys() & theirs.keys())
        if not looks:
            return None
        alike = _alike(mine[looks[0]], theirs[looks[0]])
        apart = {index: _worst(mine[index], theirs[index], alike) for index in looks}
        differing = [index for index in looks if apart[index] is not None]
        if len(differing) < LOOKS or looks[looks.index(differing[0]) :] != differing:
            return None
        last = mine[differing[-1]]
        pair = apart[differing[-1]]
        assert pair is not None
        early = differing[0] == 0
        when = "before the first step already" if early else f"since step {differing[0]}"
        return self.finding(
            last,
            f"After {last.index} steps of {last.name}, {pair[0].name} differs by {pair[0].distance(pair[1]):.2g} of its size between ranks "
            f"{last.rank} and {other}, {when}, though they exchange gradients by {self._shared[last.rank].by}.",
            fix=_MAKE_EQUAL if early else _EXCHANGE_ALL,
            evidence={
                "parameter": pair[0].name,
                f"rank_{last.rank}": list(pair[0].values),
                f"rank_{other}": list(pair[1].values),
                "relative_difference_by_step": {str(i): _distance(apart[i]) for i in looks},
                "gradients_exchanged_by": self._shared[last.rank].by,
            },
        )


_MAKE_EQUAL: Final = (
    "Start from equal weights on all ranks: broadcast them from rank 0, or set one seed before the model is built."
)
_EXCHANGE_ALL: Final = (
    "Exchange the gradients of all parameters before each step, and change no weight on one rank alone."
)


def _pairs(mine: ParametersSampled, theirs: ParametersSampled) -> list[_Pair]:
    """Weights are copies of one another if name and shape are the same."""
    known = {parameter.name: parameter for parameter in theirs.parameters}
    return [
        (one, known[one.name]) for one in mine.parameters if one.name in known and known[one.name].shape == one.shape
    ]


def _alike(mine: ParametersSampled, theirs: ParametersSampled) -> set[str]:
    """Weights that were equal at the first look: they are meant to be copies, whether or not their gradients are
    exchanged."""
    return {one.name for one, other in _pairs(mine, theirs) if one.distance(other) <= PARAMETER_DRIFT}


def _worst(mine: ParametersSampled, theirs: ParametersSampled, alike: set[str]) -> _Pair | None:
    """The weight that differs most, among those that should not; None if all are equal."""
    meant = [
        (one, other) for one, other in _pairs(mine, theirs) if (one.exchanged and other.exchanged) or one.name in alike
    ]
    worst = max(meant, key=lambda pair: pair[0].distance(pair[1]), default=None)
    return worst if worst is not None and worst[0].distance(worst[1]) > PARAMETER_DRIFT else None


def _distance(pair: _Pair | None) -> float:
    return 0.0 if pair is None else round(pair[0].distance(pair[1]), 6)
