"""PAR103 parameters-differ-across-ranks: ranks that should have the same weights have different ones.

What it sees
------------
A few values of each weight, on each rank, before some of the steps. The ranks exchange gradients
(DistributedDataParallel, or `all_reduce` of the gradients), so their weights must be equal. They differ in every check
since the first difference, at least in the last two.

Why it hurts
------------
The exchanged gradients are computed at different points and applied to different weights: each rank trains its own
model, none of them on all of the data. Rank 0 is saved and evaluated, and the loss it prints looks normal.

Evidence
--------
The weight that differs most, its values on both ranks, the relative difference at each checked step, and whether the
weights differed before the first step.

Use instead
-----------
    model = DistributedDataParallel(model)      # makes the weights equal and keeps them equal

If you exchange gradients yourself, start from equal weights (`for p in model.parameters(): dist.broadcast(p.data,
src=0)`) and exchange the gradients of all parameters before every step.

When it is fine
---------------
Not reported: ranks that hold parts of one model (FSDP, DTensor, tensor parallelism, experts), ranks that average their
weights from time to time (local SGD), ranks that exchange no gradients (one model each), and differences in the last
digits between different machines.
"""

from itertools import combinations
from typing import Final

from trueloop.event import GradientsShared, ParametersSampled, RunEnded, SampledParameter
from trueloop.event.thresholds import PARAMETER_DRIFT
from trueloop.rules.rule import Finding, Findings, Rule, Severity

__all__ = ["ParametersDifferAcrossRanks"]

LOOKS: Final = 2  # Consecutive checks, up to the last one, that must show a difference

_Pair = tuple[SampledParameter, SampledParameter]


class ParametersDifferAcrossRanks(Rule, code="PAR103", severity=Severity.ERROR):
    not_applicable = "the run had one rank"
    explained_by = ("ddp-bypassed",)

    def __init__(self) -> None:
        self._shared: dict[int, GradientsShared] = {}
        self._sampled: dict[tuple[int, int], dict[int, ParametersSampled]] = {}  # (rank, optimizer) -> steps -> sample

    def why_not_checked(self) -> str:
        if len(self._shared) < 2:
            return self.not_applicable
        return "" if any(shared.by for shared in self._shared.values()) else "no gradients were exchanged between ranks"

    def on_gradients_shared(self, event: GradientsShared) -> None:
        self._shared[event.rank] = event

    def on_parameters_sampled(self, event: ParametersSampled) -> None:
        self._sampled.setdefault((event.rank, event.optimizer), {})[event.index] = event

    def on_run_ended(self, event: RunEnded) -> Findings:
        if any(one.sharded or one.averaged or one.swapped or not one.by for one in self._shared.values()):
            return
        for one, other in combinations(sorted(self._shared), 2):
            for rank, optimizer in sorted(self._sampled):
                if rank == one and other in self._shared[one].members:
                    mine, theirs = self._sampled[one, optimizer], self._sampled.get((other, optimizer), {})
                    if finding := self._compare(mine, theirs, other):
                        yield finding
                        return

    def _compare(
        self, mine: dict[int, ParametersSampled], theirs: dict[int, ParametersSampled], other: int
    ) -> Finding | None:
        looks = sorted(mine.keys() & theirs.keys())
        if not looks:
            return None
        equal = {one.name for one, b in _pairs(mine[looks[0]], theirs[looks[0]]) if one.distance(b) <= PARAMETER_DRIFT}
        worst = {index: _worst(mine[index], theirs[index], equal) for index in looks}
        differing = [index for index in looks if worst[index] is not None]
        if len(differing) < LOOKS or looks[looks.index(differing[0]) :] != differing:
            return None
        last = mine[differing[-1]]
        pair = worst[differing[-1]]
        assert pair is not None
        apart = {str(index): round(two[0].distance(two[1]), 6) if two else 0.0 for index, two in worst.items()}
        early = differing[0] == 0
        when = "from before the first step" if early else f"since step {differing[0]}"
        return self.finding(
            last,
            f"After {last.index} steps {pair[0].name} differs by {pair[0].distance(pair[1]):.2g} of its size between "
            f"ranks {last.rank} and {other}, {when}, although {self._shared[last.rank].by} exchanges their gradients.",
            fix="Start from equal weights: `dist.broadcast(p.data, src=0)` for each parameter, or one seed before the "
            "model is created."
            if early
            else "Exchange the gradients of all parameters before each step, and change no weight on one rank only.",
            evidence={
                "parameter": pair[0].name,
                f"rank_{last.rank}": list(pair[0].values),
                f"rank_{other}": list(pair[1].values),
                "relative_difference_by_step": apart,
                "gradients_exchanged_by": self._shared[last.rank].by,
            },
        )


def _pairs(mine: ParametersSampled, theirs: ParametersSampled) -> list[_Pair]:
    """Weights with the same name and shape are copies."""
    known = {parameter.name: parameter for parameter in theirs.parameters}
    return [
        (one, known[one.name]) for one in mine.parameters if one.name in known and known[one.name].shape == one.shape
    ]


def _worst(mine: ParametersSampled, theirs: ParametersSampled, equal: set[str]) -> _Pair | None:
    """The weight that differs most, if its gradients are exchanged or it was equal at first; None if all are equal."""
    copies = [(a, b) for a, b in _pairs(mine, theirs) if (a.exchanged and b.exchanged) or a.name in equal]
    worst = max(copies, key=lambda pair: pair[0].distance(pair[1]), default=None)
    return worst if worst is not None and worst[0].distance(worst[1]) > PARAMETER_DRIFT else None
