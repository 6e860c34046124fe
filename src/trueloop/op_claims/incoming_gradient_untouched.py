"""incoming-gradient-untouched: backward writes neither into its incoming gradient nor into what forward saved.

The incoming gradient may belong to other branches of the graph: gradcheck does not see that it was overwritten. A
second backward through the same graph must give the same gradients.
"""

from collections.abc import Callable, Iterator
from typing import ClassVar, Final, final

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from trueloop.op_claims.difference import Difference, bytes_of
from trueloop.op_claims.gradients import gradients, incoming_for
from trueloop.op_claims.op_claim import OpClaim, Trial
from trueloop.op_claims.op_subject import NotTaken, OpSubject
from trueloop.op_claims.sample import Sample
from trueloop.results.proof import Cause, Proof

__all__ = ["IncomingGradientUntouched"]

SAVED: Final = Cause("backward reuses the memory of a saved tensor", "look for `mul_`, `out=` and `.data` there")
STATE: Final = Cause("backward changes something on `ctx`", "compute it again, or store it in forward")


@final
class IncomingGradientUntouched(OpClaim):
    name = "incoming-gradient-untouched"
    healthy = "incoming gradient and saved tensors have the same bytes after backward; a second backward agrees"
    causes: ClassVar[tuple[Cause, ...]] = (
        Cause("an in-place operation on the incoming gradient", "`g = g.clone()` first, or `torch.where(...)`"),
        SAVED,
        STATE,
    )

    def try_op(self, subject: OpSubject) -> Proof:
        return self.result(
            subject,
            _trials(subject),
            lambda said: f"nothing was written by {said} backwards; a second backward gave the same gradients",
            "its result has no gradient",
        )


def _trials(subject: OpSubject) -> Iterator[Trial]:
    for sample in subject.samples:
        yield Trial("", sample, _breaks(subject))


def _breaks(subject: OpSubject) -> Callable[[Sample], Difference | None]:
    def breaks(sample: Sample) -> Difference | None:
        saved: list[tuple[Tensor, bytes]] = []

        def keep(tensor: Tensor) -> Tensor:
            saved.append((tensor, bytes_of(tensor)))
            return tensor

        with saved_tensors_hooks(keep, lambda tensor: tensor):
            found = gradients(subject, sample.copied(), retain_graph=True)
        if found.values is None:
            raise NotTaken(RuntimeError("no gradient"), refused=True)
        before = [incoming_for(result) for result in found.results]
        if [bytes_of(each) for each in found.incoming] != [bytes_of(each) for each in before]:
            return Difference("backward wrote into the incoming gradient")
        if any(bytes_of(tensor) != kept for tensor, kept in saved):
            return Difference("backward wrote into a tensor that forward saved")
        with subject.taking():
            again = torch.autograd.grad(found.results, found.leaves, before, allow_unused=True)
        return _again(list(again), found.values)

    return breaks


def _again(second: list[Tensor | None], first: list[Tensor | None]) -> Difference | None:
    for one, other in zip(second, first, strict=True):
        if one is not None and other is not None and not torch.allclose(one, other, equal_nan=True):
            return Difference("a second backward through the same graph gives a different gradient")
    return None
