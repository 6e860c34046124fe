"""gradient-equals-reference: the gradients equal the reference's, in every dtype that is trained in.

With `--gradient-of identity` (a straight-through estimator) they are compared with that function's gradients.
"""

from collections.abc import Iterator
from typing import ClassVar, Final, final

import torch

from trueloop.op_claims.difference import Difference, difference
from trueloop.op_claims.gradients import gradients, zero_filled
from trueloop.op_claims.op_claim import OpClaim, Trial
from trueloop.op_claims.op_subject import NotTaken, OpSubject
from trueloop.op_claims.sample import Sample
from trueloop.results.proof import Cause, Proof

__all__ = ["GradientEqualsReference"]

DETACHED: Final = Cause(
    "the graph is cut", "look for `.detach()`, `.data`, `.numpy()`, `.item()` and `torch.no_grad()`"
)


@final
class GradientEqualsReference(OpClaim):
    name = "gradient-equals-reference"
    needs_reference = True
    healthy = "the gradient of every input equals the reference's within its own rounding"
    causes: ClassVar[tuple[Cause, ...]] = (
        Cause("the derivative is wrong", "compare with the derivative on paper: sign, factor, chain rule"),
        Cause("the wrong tensor is saved", "does `save_for_backward` keep what backward unpacks: input or output?"),
        Cause("a broadcast is not summed", "`g.sum_to_size(x.shape)` sums over the dimensions that were expanded"),
        DETACHED,
    )

    def try_op(self, subject: OpSubject) -> Proof:
        reference = subject.gradient_reference or subject.reference
        named = subject.gradient_of or subject.against
        sample = subject.samples[0].copied()
        try:
            if gradients(subject, sample, reference).values is None:
                return self.unproved(f"{named} has no gradient")
            gradients(subject, sample)
        except NotTaken as error:
            if any(words in str(error) for words in NO_GRADIENT):
                return self.unproved(f"it declares no gradient: a backward through it raises {error}")
        return self.result(
            subject,
            _trials(subject),
            lambda said: f"equals the gradient of {named} on {said} inputs",
            f"no gradient of {named} could be computed",
        )


NO_GRADIENT: Final = ("autograd formula", "must implement either the backward", "no autograd", "not implemented")


def _trials(subject: OpSubject) -> Iterator[Trial]:
    for sample in subject.samples:
        dtypes = [sample.floats()[0].dtype, *subject.dtypes] if sample.floats() else []
        for dtype in dict.fromkeys(dtypes):
            yield Trial("", sample.cast(dtype), lambda each: _compared(subject, each))


def _compared(subject: OpSubject, sample: Sample) -> Difference | None:
    reference = subject.gradient_reference or subject.reference
    expected = gradients(subject, sample.copied(), reference)
    if expected.values is None or subject.draws:
        return None
    try:
        truth = zero_filled(gradients(subject, sample.copied().cast(torch.float64), reference))
    except NotTaken:
        truth = None
    try:
        got = gradients(subject, sample.copied())
    except NotTaken as error:
        return Difference(f"the backward raises {error}")
    if got.values is None:
        return Difference("the result has no gradient (`requires_grad` is False)")
    found = difference(zero_filled(got), zero_filled(expected), truth)
    return Difference(found.what.replace("the result", "the gradient of input", 1)
                      if len(got.leaves) > 1 else found.what.replace("the result", "the gradient", 1),
                      found.evidence) if found else None  # fmt: skip
