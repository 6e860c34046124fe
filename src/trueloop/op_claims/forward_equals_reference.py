"""forward-equals-reference: the results equal the reference's, in every dtype and at odd sizes.

Shape, dtype and device count too. The tolerance is that of torch.testing, and as much again as the reference itself is
away from float64.
"""

from collections.abc import Iterator
from typing import ClassVar, final

import torch

from trueloop.op_claims.difference import Difference, difference
from trueloop.op_claims.op_claim import OpClaim, Trial
from trueloop.op_claims.op_subject import NotTaken, OpSubject
from trueloop.op_claims.sample import Sample, resized, short_dtype
from trueloop.results.proof import Cause, Proof

__all__ = ["ForwardEqualsReference"]

DTYPE = Cause(
    "a dtype is fixed inside", "look for `.float()`, `torch.float32` and buffers made without `dtype=x.dtype`"
)
SIZE = Cause("the last block is not complete", "look at the mask for sizes that are no multiple of the block")


@final
class ForwardEqualsReference(OpClaim):
    name = "forward-equals-reference"
    needs_reference = True
    healthy = "shape, dtype, device and values equal the reference's within its own rounding"
    causes: ClassVar[tuple[Cause, ...]] = (
        Cause("the formula differs", "compare both on the smallest input, term by term"),
        Cause("a reduction runs over a different dimension", "try a size of its own for each dimension"),
        DTYPE,
    )

    def try_op(self, subject: OpSubject) -> Proof:
        dtypes = ", ".join(map(short_dtype, subject.dtypes))
        proof = self.result(
            subject,
            _trials(subject),
            lambda said: f"equals {subject.against} on {said} inputs{f' in {dtypes}' if dtypes else ''}",
            f"{subject.against} takes none of the inputs",
        )
        if proof.result == "fails" and subject.draws:
            return self.unproved("it draws random numbers, so its values cannot be compared with the reference's")
        return proof


def _trials(subject: OpSubject) -> Iterator[Trial]:
    for sample in subject.samples:
        yield Trial("", sample, lambda each: compared(subject, each))
    for dtype in subject.dtypes:
        for sample in subject.samples:
            cast = sample.cast(dtype)
            if [each.dtype for each in cast.tensors()] != [each.dtype for each in sample.tensors()]:
                yield Trial("", cast, lambda each: compared(subject, each), DTYPE)
    for sample in subject.samples:
        sizes = sorted({size for tensor in sample.tensors() for size in tensor.shape if 2 < size <= 64})
        for size in sizes:
            yield Trial("", resized(sample, size, size - 1), lambda each: compared(subject, each), SIZE)


def compared(subject: OpSubject, sample: Sample) -> Difference | None:
    expected, truth = None, subject.truth(sample.copied())
    try:
        expected = subject.results(sample.copied(), subject.reference)
    except NotTaken:
        if truth is None or any(each.dtype == torch.float64 for each in sample.tensors()):
            raise
    try:
        got = subject.results(sample.copied())
    except NotTaken as error:
        if error.refused:
            raise
        return Difference(f"it raises {error}")
    if expected is None:  # the reference has this dtype not at all
        return None
    return difference(got, expected, truth)
