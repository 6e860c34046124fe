"""PAR101 ranks-see-same-batches: the ranks of a run train on the same data, so that all but one of them are wasted.

What it sees
------------
Digests of what goes into a model on each rank, in its first calls in train mode with a graph. Two ranks that exchange
gradients (by DistributedDataParallel, or by an all_reduce of the gradients that keeps their weights equal) had the same
inputs in each of several calls in a row, and these inputs were not all one and the same batch.

Why it hurts
------------
The mean of equal gradients is the gradient of one rank: four ranks take the steps of one, at four times the cost, with
a learning rate that is often scaled for a batch that does not exist. Without a sampler that divides the data, or with
one seed for the random batches of all ranks, nothing else looks wrong.

Evidence
--------
The ranks, how many batches were compared, how many of them were distinct, and how the gradients are exchanged.

Use instead
-----------
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=32, sampler=sampler)

For random batches, seed by the rank: `torch.manual_seed(seed + rank)`, after the model was built.

When it is fine
---------------
Ranks that hold parts of one model (DTensor, FSDP2, tensor parallel groups) must see the same batch, and are not
reported; nor are ranks to which the batches are broadcast or scattered on purpose, evaluation, and training on one full
batch again and again.
"""

from __future__ import annotations

import ast
from itertools import combinations
from typing import Final, final

from trueloop.event import BatchDigested, GradientsShared, ParametersSampled, Place, RunEnded
from trueloop.finding import Finding, Severity
from trueloop.rules.rule import Findings, Rule
from trueloop.usercode.source import called_name, source_of

__all__ = ["RanksSeeSameBatches"]

BATCHES: Final = 4
"""Batches in a row, at least, that must be equal: a first batch may be a rehearsal that all ranks make."""
DISTINCT: Final = 3
"""Distinct ones among them: fewer are full-batch training, or alternate between two fixed inputs."""
EQUAL: Final = 1e-4
"""Weights that differ by less, relative to their size, are copies of one another."""


@final
class RanksSeeSameBatches(Rule):
    code = "PAR101"
    name = "ranks-see-same-batches"
    severity = Severity.ERROR
    not_applicable = "the run had one rank"

    def __init__(self) -> None:
        self._batches: dict[tuple[int, int], dict[int, BatchDigested]] = {}
        """(model, rank) -> index -> batch."""
        self._shared: dict[int, GradientsShared] = {}
        self._weights: dict[int, dict[tuple[int, int], ParametersSampled]] = {}

    def why_not_checked(self) -> str:
        if len(self._shared) < 2:
            return self.not_applicable
        return "" if any(shared.by for shared in self._shared.values()) else "no gradients were exchanged between ranks"

    def on_batch_digested(self, event: BatchDigested) -> None:
        self._batches.setdefault((event.model, event.rank), {})[event.index] = event

    def on_gradients_shared(self, event: GradientsShared) -> None:
        self._shared[event.rank] = event

    def on_parameters_sampled(self, event: ParametersSampled) -> None:
        self._weights.setdefault(event.rank, {})[event.optimizer, event.index] = event

    def on_run_ended(self, event: RunEnded) -> Findings:
        for one, other in combinations(sorted(self._shared), 2):
            if not self._replicate(one, other):
                continue
            for model in sorted({model for model, rank in self._batches if rank == one}):
                same = self._same(model, one, other)
                if same and self._shared[one].broadcasts < sum(batch.step > 0 for batch in same):
                    yield self._said(event, one, other, same)
                    return

    def _replicate(self, one: int, other: int) -> bool:
        """Do the two hold copies of one model, kept equal by exchanging gradients?"""
        a, b = self._shared[one], self._shared[other]
        if a.by == "" or a.by != b.by or other not in a.members or a.sharded or b.sharded or a.swapped or b.swapped:
            return False
        return a.by == "DistributedDataParallel" or self._weights_are_equal(one, other)

    def _weights_are_equal(self, one: int, other: int) -> bool:
        """An all_reduce also serves ranks that each hold a part of the model: copies have the same weights."""
        mine, theirs = self._weights.get(one, {}), self._weights.get(other, {})
        both = sorted(mine.keys() & theirs.keys(), key=lambda key: key[1])
        if not both:
            return False
        a, b = mine[both[-1]].parameters, theirs[both[-1]].parameters
        return len(a) == len(b) and all(x.shape == y.shape and x.distance(y) < EQUAL for x, y in zip(a, b, strict=True))

    def _same(self, model: int, one: int, other: int) -> list[BatchDigested]:
        """The batches that both ranks saw, if all are equal and there are enough."""
        mine, theirs = self._batches.get((model, one), {}), self._batches.get((model, other), {})
        both = sorted(mine.keys() & theirs.keys())
        equal = all(mine[index].digest == theirs[index].digest for index in both)
        distinct = len({mine[index].digest for index in both})
        return [mine[index] for index in both] if equal and len(both) >= BATCHES and distinct >= DISTINCT else []

    def _said(self, event: RunEnded, one: int, other: int, same: list[BatchDigested]) -> Finding:
        shared, last = self._shared[one], same[-1]
        loader = last.loader_place
        return self.finding(
            event,
            f"Ranks {one} and {other} trained on the same {len(same)} batches, one after the other, and averaged equal gradients.",
            fix="Give each rank its own part of the data: a DistributedSampler in its DataLoader, or a seed that depends on the rank.",
            evidence={
                "ranks": [one, other],
                "batches_compared": len(same),
                "distinct": len({batch.digest for batch in same}),
                "gradients_exchanged_by": shared.by,
            },
            place=last.place if loader is None else _where_built(loader),
        )


def _where_built(loop: Place) -> Place:
    """The line that builds the loader that the loop goes over, if the same file shows one; the loop itself
    otherwise."""
    source = source_of(loop.path)
    statement = source.statement(loop.line)
    if not isinstance(statement, ast.For):
        return loop
    names = {node.id for node in ast.walk(statement.iter) if isinstance(node, ast.Name)}
    built = [
        node
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Call)
        and called_name(node.value) == "DataLoader"
        and any(isinstance(target, ast.Name) and target.id in names for target in node.targets)
    ]
    return Place(loop.path, built[0].lineno, loop.function) if len(built) == 1 else loop
