"""empty-and-single-inputs: sizes of 0 and 1 give what the reference gives."""

from collections.abc import Iterator
from typing import ClassVar, final

from trueloop.op_claims.against_reference import compared_at_edge
from trueloop.op_claims.op_claim import OpClaim, Trial
from trueloop.op_claims.op_subject import OpSubject
from trueloop.op_claims.sample import resized
from trueloop.results.proof import Cause, Proof

__all__ = ["EmptyAndSingleInputs"]


@final
class EmptyAndSingleInputs(OpClaim):
    name = "empty-and-single-inputs"
    needs_reference = True
    healthy = "inputs with 0 or 1 elements along a dimension give the reference's result"
    causes: ClassVar[tuple[Cause, ...]] = (
        Cause("a loop or a grid of size 0", "return early: `if x.numel() == 0`, with the right shape"),
        Cause("a first element is taken for granted", "look for `x[0]`, `max(n, 1)` and divisions by a size"),
    )

    def try_op(self, subject: OpSubject) -> Proof:
        proof = self.result(
            subject,
            _trials(subject),
            lambda said: f"equals {subject.against} for {said} inputs with a size of 0 or 1",
            f"{subject.against} takes no inputs of these sizes",
        )
        random = proof.result == "fails" and subject.draws
        return self.unproved("it draws random numbers, so its values cannot be compared") if random else proof


def _trials(subject: OpSubject) -> Iterator[Trial]:
    for sample in subject.samples:
        sizes = sorted({size for tensor in sample.tensors() for size in tensor.shape if size > 1})
        for to in (1, 0):
            for size in sizes:
                yield Trial("", resized(sample, size, to), lambda each: compared_at_edge(subject, each))
            smallest = sample
            for size in sizes:
                smallest = resized(smallest, size, to)
            if len(sizes) > 1:
                yield Trial("", smallest, lambda each: compared_at_edge(subject, each))
