"""PAR101 ranks-see-same-batches: the ranks train on the same batches, so all but one are wasted.

What it sees
------------
Hashes of a model's inputs on each rank, in its first calls in train mode with a graph. Two ranks that exchange
gradients (DistributedDataParallel, or an `all_reduce` of the gradients that keeps their weights equal) had the same
inputs in several consecutive calls, and these were not all one batch.

Why it hurts
------------
The mean of equal gradients is the gradient of one rank: four ranks do the work of one at four times the cost, often
with a learning rate scaled for a batch size that does not exist. Causes are a missing DistributedSampler, or one seed
for the random batches of all ranks. Nothing else looks wrong.

Evidence
--------
The ranks, how many batches were compared, how many of them were distinct, and how gradients are exchanged.

Use instead
-----------
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=32, sampler=sampler)

For random batches, seed by rank after the model is created: `torch.manual_seed(seed + rank)`.

When it is fine
---------------
Not reported: ranks that hold parts of one model (DTensor, FSDP2, tensor parallel groups), batches that are broadcast or
scattered on purpose, evaluation, and full-batch training.
"""

import ast
from itertools import combinations
from typing import Final

from trueloop.event import BatchDigested, GradientsShared, ParametersSampled, Place, RunEnded
from trueloop.rules.rule import Finding, Findings, Rule, Severity
from trueloop.usercode.source import called_name, source_of

__all__ = ["RanksSeeSameBatches"]

BATCHES: Final = 4  # Consecutive batches that must be equal: the first one may be a warmup on all ranks
DISTINCT: Final = 3  # Distinct batches among them: fewer are full-batch training, or alternate between two fixed inputs
EQUAL: Final = 1e-4  # Weights with a smaller relative difference are copies


class RanksSeeSameBatches(Rule, code="PAR101", severity=Severity.ERROR):
    not_applicable = "the run had one rank"

    def __init__(self) -> None:
        self._batches: dict[tuple[int, int], dict[int, BatchDigested]] = {}  # (model, rank) -> index -> batch
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
                    yield self._report(event, one, other, same)
                    return

    def _replicate(self, one: int, other: int) -> bool:
        """Do both hold copies of one model, kept equal by exchanging gradients?"""
        a, b = self._shared[one], self._shared[other]
        if a.by == "" or a.by != b.by or other not in a.members or a.sharded or b.sharded or a.swapped or b.swapped:
            return False
        return a.by == "DistributedDataParallel" or self._weights_are_equal(one, other)

    def _weights_are_equal(self, one: int, other: int) -> bool:
        """Ranks that each hold a part of the model also use all_reduce; only copies have equal weights."""
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

    def _report(self, event: RunEnded, one: int, other: int, same: list[BatchDigested]) -> Finding:
        shared, last = self._shared[one], same[-1]
        loader = last.loader_place
        return self.finding(
            event,
            f"Ranks {one} and {other} trained on the same {len(same)} consecutive batches, so one of them is wasted.",
            fix="Pass `sampler=DistributedSampler(data)` to the DataLoader, or use a seed that depends on the rank.",
            evidence={
                "ranks": [one, other],
                "batches_compared": len(same),
                "distinct": len({batch.digest for batch in same}),
                "gradients_exchanged_by": shared.by,
            },
            place=last.place if loader is None else _where_built(loader),
        )


def _where_built(loop: Place) -> Place:
    """The line that creates the loader of this loop, if it is in the same file; otherwise the loop."""
    source = source_of(loop.path)
    statement = source.statement(loop.line)
    if not isinstance(statement, ast.For):
        return loop
    names = {node.id for node in ast.walk(statement.iter) if isinstance(node, ast.Name)}
    assigned = (n for n in ast.walk(source.tree) if isinstance(n, ast.Assign) and isinstance(n.value, ast.Call))
    built = [
        node
        for node in assigned
        if isinstance(node.value, ast.Call)
        and called_name(node.value) == "DataLoader"
        and any(isinstance(target, ast.Name) and target.id in names for target in node.targets)
    ]
    return Place(loop.path, built[0].lineno, loop.function) if len(built) == 1 else loop
