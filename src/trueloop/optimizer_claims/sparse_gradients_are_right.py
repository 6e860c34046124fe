"""sparse-gradients-are-right: gradients of `nn.Embedding(sparse=True)` are an error, or used as they are meant.

Used: the rows that have a gradient move as with a dense one in the first step, and the others stay.
"""

from typing import ClassVar, Final, final

import torch
import torch.nn.functional as F  # noqa: N812 - as everybody writes it
from torch import Tensor, nn

from trueloop.optimizer_claims.optimizer_claim import OptimizerClaim
from trueloop.optimizer_claims.optimizer_subject import NotTaken, OptimizerSubject, moved
from trueloop.results.proof import Cause, Proof

__all__ = ["SparseGradientsAreRight"]

ROWS: Final = (1, 3, 3)
CLOSE: Final = 1e-6

IGNORED = Cause("the sparse gradient is skipped silently", "raise RuntimeError for grad.is_sparse, or grad.to_dense()")
TWICE = Cause("rows that occur twice are not added up", "grad.coalesce() first")


@final
class SparseGradientsAreRight(OptimizerClaim):
    name = "sparse-gradients-are-right"
    healthy = "sparse gradients are refused by an error, or move the same rows as dense ones"
    causes: ClassVar[tuple[Cause, ...]] = (IGNORED, TWICE)

    def try_optimizer(self, subject: OptimizerSubject) -> Proof:
        if subject.needs_closure:
            return self.unproved("it needs a closure")
        changes = {"weight_decay": 0.0} if subject.has("weight_decay") else {}
        start = _table().detach().clone()
        try:
            sparse = _stepped(subject, changes, sparse=True)
        except NotTaken as error:
            return self.holds(f"refused: {error}", {"error": str(error)})
        try:
            dense = _stepped(subject, changes, sparse=False)
        except NotTaken as error:
            return self.holds(f"it takes sparse gradients only: {error}", {"error": str(error)})
        used, others = sorted(set(ROWS)), [row for row in range(len(start)) if row not in ROWS]
        ways = [moved([start[used]], [table[used]]) for table in (sparse, dense)]
        evidence = {"moved_by_sparse": ways[0], "moved_by_dense": ways[1]}
        if moved([dense[used]], [sparse[used]]) > CLOSE * max(ways[1], 1e-12):
            said = f"a step by a sparse gradient moved rows by {ways[0]:.3g}, by the same as a dense one {ways[1]:.3g}"
            return self.fails(said, evidence, self.likely_first(TWICE if ways[0] else IGNORED), subject.place)
        if way := moved([start[others]], [sparse[others]]):
            return self.fails(f"rows without a gradient moved by {way:.3g}", evidence, place=subject.place)
        return self.holds(f"rows move by {ways[0]:.3g}, as with a dense gradient", evidence)


def _table() -> nn.Parameter:
    return nn.Parameter(torch.randn(6, 4, generator=torch.Generator().manual_seed(2), dtype=torch.float64))


def _stepped(subject: OptimizerSubject, changes: dict[str, float], *, sparse: bool) -> Tensor:
    table = _table()
    optimizer = subject.build([table], **changes)
    F.embedding(torch.tensor(ROWS), table, sparse=sparse).square().sum().backward()  # type: ignore[no-untyped-call]
    try:
        with torch.sparse.check_sparse_tensor_invariants(True):  # type: ignore[no-untyped-call]  # set, so that torch does not warn
            optimizer.step()
    except (Exception, SystemExit) as error:
        raise NotTaken(error) from error
    return table.detach()
